"""Things that are there already and a stack uses: facts that somebody has read in AWS, and what is wrong with them."""
