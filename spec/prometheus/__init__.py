"""Prometheus rules of a stack: numbers, alerts and SLOs. Nothing is imported here: `python3 -m` begins with it."""
