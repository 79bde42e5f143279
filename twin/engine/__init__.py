"""The real Pulumi engine, and everything that a stack needs before it runs."""
