"""Faults that a user injects into the twin's AWS, as parameters of its Parameter Store (docs/twin.md)."""

from __future__ import annotations

WITHOUT_CAPACITY = "/twin/without-capacity"
"""Instance types without capacity in EC2, separated by commas, optionally limited to a zone or capacity type.

`g5.xlarge`, `g5.xlarge/us-west-2a`, `g5.xlarge/spot`. A fleet gets none of them, and a node group of only these types fails.
"""
DEGRADED_ADD_ONS = "/twin/degraded-add-ons"
"""Add-ons that never become healthy, separated by commas."""

DELAYS = "/twin/delays"
"""Seconds until a change has its effect, by the names in `DELAYED`: `iam=15,pod-identity=15,kms=60`."""
DELAYED = ("iam", "kms", "pod-identity")
"""New roles; tags and aliases of KMS keys; Pod Identity associations."""
DEPLOYER = "/twin/deployer-policy"
"""IAM statements of the principal that runs Pulumi, as a JSON list. KMS calls are checked against them."""


def listed(text: str) -> frozenset[str]:
    """Split a parameter's value at the commas."""
    return frozenset(part.strip() for part in text.split(",") if part.strip())


def delays(text: str) -> dict[str, float]:
    """Parse delays as seconds by name. Raises ValueError for anything else."""
    found = {name.strip(): float(seconds) for name, _, seconds in (part.partition("=") for part in listed(text))}
    if unknown := found.keys() - set(DELAYED):
        raise ValueError(f"{DELAYS}: {', '.join(sorted(unknown))}: only {', '.join(DELAYED)} can be late")
    return found
