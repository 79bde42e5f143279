"""Answer questions about a stack and its account, take a stack away, and tell reviewers what a change would do to one."""
