"""Prometheus rules of a stack: recordings, alerts and SLOs. This package imports nothing, because `python3 -m` loads it
first."""
