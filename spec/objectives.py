"""Objectives: the share of a model's requests that have to be good. Alerts, dashboards and canaries use them."""

LATENCY = 0.95
"""Share of the responses within the model's `sloP95Ms`."""
TAIL_LATENCY = 0.99
"""Share of the responses within the model's `sloP99Ms`, if it has one."""
AVAILABILITY = 0.999
"""Share of the requests that succeed."""
