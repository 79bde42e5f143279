"""Takes a stack away in an order in which nothing is left that AWS goes on billing (docs/teardown.md)."""
