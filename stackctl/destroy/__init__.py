"""Delete a stack in an order that leaves no billed resource (docs/teardown.md)."""
