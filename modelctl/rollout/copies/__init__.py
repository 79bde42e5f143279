"""Copies of live requests, asked of two releases at once, and their answers compared (`modelctl compare`)."""
