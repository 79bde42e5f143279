"""Name the faults that a person gives the twin's AWS. Each is a parameter of its Parameter Store (docs/twin.md)."""

from __future__ import annotations

WITHOUT_CAPACITY = "/twin/without-capacity"
"""Instance types that EC2 has none of, separated by commas, each perhaps with a zone or a kind of capacity.

`g5.xlarge`, `g5.xlarge/us-west-2a`, `g5.xlarge/spot`. A fleet gets none of them, and a node group of these alone fails.
"""
DEGRADED_ADD_ONS = "/twin/degraded-add-ons"
"""Add-ons that do not become healthy, separated by commas."""

DELAYS = "/twin/delays"
"""Seconds until a change has its effect, by `DELAYED`: `iam=15,pod-identity=15,kms=60`."""
DELAYED = ("iam", "kms", "pod-identity")
"""New roles; tags and aliases of KMS keys; Pod Identity associations."""
DEPLOYER = "/twin/deployer-policy"
"""The IAM statements, as a JSON list, of whoever runs Pulumi. Calls of KMS are held against them."""


def listed(text: str) -> frozenset[str]:
    """Return the parts of a parameter's value."""
    return frozenset(part.strip() for part in text.split(",") if part.strip())


def delays(text: str) -> dict[str, float]:
    """Return the seconds by what is delayed. Raises ValueError for anything else."""
    found = {name.strip(): float(seconds) for name, _, seconds in (part.partition("=") for part in listed(text))}
    if unknown := found.keys() - set(DELAYED):
        raise ValueError(f"{DELAYS}: {', '.join(sorted(unknown))}: only {', '.join(DELAYED)} can be late")
    return found
