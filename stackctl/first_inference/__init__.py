"""Serves models on a stack that is up, and asks one of them, by the way that clients take."""
