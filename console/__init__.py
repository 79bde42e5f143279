"""Shared parts of all commands: start, failures and exit, options, and output."""
