"""Name the faults that a person gives the twin's AWS. Each is a parameter of its Parameter Store (docs/twin.md)."""

from __future__ import annotations

WITHOUT_CAPACITY = "/twin/without-capacity"
"""Instance types that EC2 has none of, separated by commas, each perhaps with a zone or a kind of capacity.

`g5.xlarge`, `g5.xlarge/us-west-2a`, `g5.xlarge/spot`. A fleet gets none of them, and a node group of these alone fails.
"""
DEGRADED_ADD_ONS = "/twin/degraded-add-ons"
"""Add-ons that do not become healthy, separated by commas."""


def listed(text: str) -> frozenset[str]:
    """Return the parts of a parameter's value."""
    return frozenset(part.strip() for part in text.split(",") if part.strip())
