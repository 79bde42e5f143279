"""A model on a Triton of this machine, for as long as one command."""
