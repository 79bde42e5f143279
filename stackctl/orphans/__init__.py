"""What AWS still has, and bills, of a stack: read, listed, and never touched (docs/teardown.md)."""
