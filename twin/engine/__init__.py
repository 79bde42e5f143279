"""The real Pulumi engine, and what a stack finds before it runs."""
