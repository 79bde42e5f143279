"""VPC endpoints by profile: the AWS services that are reachable without the internet, and their endpoint service names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from spec.catalog import partition_of

Profile = Literal["none", "minimal", "full"]

_MINIMAL = ("ecr.api", "ecr.dkr", "sts")
"""Services that every pod start needs: image pulls and IRSA tokens."""

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
"""Services reached through interface endpoints, by profile (callers: spec/reach.py). Each costs money per zone and hour."""

_WITH_CN = frozenset({"autoscaling", "ec2", "ecr.api", "ecr.dkr", "eks", "monitoring", "sqs", "sts"})
"""Services whose interface endpoints in China begin with `cn.com.amazonaws…`; the others begin with `com.amazonaws…`.

Source: EC2's list in https://github.com/aws/aws-cdk/pull/25333. It does not cover `eks-auth`, which is newer.
"""


def gateway_service(service: str, region: str) -> str:
    """Return the endpoint service name of a gateway endpoint, which begins with `com.` in every partition."""
    return f"com.amazonaws.{region}.{service}"


def interface_service(service: str, region: str) -> str:
    """Return the endpoint service name of an interface endpoint."""
    prefix = "cn." if partition_of(region) == "aws-cn" and service in _WITH_CN else ""
    return f"{prefix}com.amazonaws.{region}.{service}"
