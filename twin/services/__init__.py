"""The servers and the agent of a running twin."""
