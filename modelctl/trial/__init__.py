"""Serve a model on a Triton of this machine for the duration of one command."""
