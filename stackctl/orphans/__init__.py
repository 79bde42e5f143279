"""A list of what AWS still has, and bills, of a stack: read, and never touched (docs/teardown.md)."""
