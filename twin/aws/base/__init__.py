"""Shared parts of all handlers: contract, input checks, clients, tags and policy documents."""
