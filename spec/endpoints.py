"""Interface endpoints: the services of AWS that a VPC reaches without the internet, by profile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

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
        "ec2messages",
        "eks",
        "eks-auth",
        "elasticloadbalancing",
        "kms",
        "logs",
        "monitoring",
        "sqs",
        "ssm",
        "ssmmessages",
    ),
}
"""Services reached through interface endpoints, by profile. Each costs per zone and hour."""
