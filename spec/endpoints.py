"""Endpoints of a VPC: the services of AWS that it reaches without the internet, by profile, and what AWS calls them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from spec.catalog import partition_of

Profile = Literal["none", "minimal", "full"]

_MINIMAL = ("ecr.api", "ecr.dkr", "sts")
"""Images and IRSA tokens: what a pod start waits for."""

INTERFACE_SERVICES: Mapping[Profile, tuple[str, ...]] = {
    "none": (),
    "minimal": _MINIMAL,
    "full": (
        *_MINIMAL,
        "autoscaling",
        "ec2",
        "eks",
        "eks-auth",
        "elasticloadbalancing",
        "logs",
        "sqs",
        "ssm",
        "ssmmessages",
    ),
}
"""Services reached through interface endpoints, by profile (callers: spec/reach.py). Each costs per zone and hour."""

_WITH_CN = frozenset({"autoscaling", "ec2", "ecr.api", "ecr.dkr", "eks", "monitoring", "sqs", "sts"})
"""Services whose interface endpoints in China are called `cn.com.amazonaws…`; those of the others `com.amazonaws…`.

As EC2 listed them for https://github.com/aws/aws-cdk/pull/25333. Of `eks-auth`, which is younger, nobody has told.
"""


def gateway_service(service: str, region: str) -> str:
    """Return the name of the endpoint service behind a gateway endpoint: it begins with `com.` in every partition."""
    return f"com.amazonaws.{region}.{service}"


def interface_service(service: str, region: str) -> str:
    """Return the name of the endpoint service behind an interface endpoint."""
    prefix = "cn." if partition_of(region) == "aws-cn" and service in _WITH_CN else ""
    return f"{prefix}com.amazonaws.{region}.{service}"
