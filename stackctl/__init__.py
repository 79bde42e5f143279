"""Answer questions about a stack and its account, and take a stack away."""
