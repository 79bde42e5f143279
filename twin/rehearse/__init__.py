"""Rehearse a change on the exported state of a real stack: what would be replaced, lost and interrupted."""
