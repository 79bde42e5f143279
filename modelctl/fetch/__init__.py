"""Bring one release from its bucket to a local disk, whole and verified, at a path that no release changes."""
