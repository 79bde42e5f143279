"""Manage API keys of the gateway's clients in Secrets Manager."""
