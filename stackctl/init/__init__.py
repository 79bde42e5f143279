"""Makes the file of a new stack, every value of which is true for the account at hand."""
