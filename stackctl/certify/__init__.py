"""Check the claims of docs/proven.md on a real account.

A run creates a stack, checks the claims, deletes the stack and writes a report.
"""
