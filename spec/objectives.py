"""The shares of a model's requests that have to go well: what alerts, dashboards and canaries judge by."""

LATENCY = 0.95
"""Share of the responses within the model's `sloP95Ms`."""
TAIL_LATENCY = 0.99
"""Share of the responses within its `sloP99Ms`, where it has one."""
AVAILABILITY = 0.999
"""Share of the requests that succeed."""
