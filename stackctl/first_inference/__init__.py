"""Serve models on a running stack, and send one a request as clients do."""
