"""Fetch one release from its bucket to a local disk, complete and verified, at a stable path."""
