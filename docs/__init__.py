"""The pages of the site, and the programs that write some of them from the code."""
