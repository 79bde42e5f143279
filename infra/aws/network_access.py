"""The ids of a network for components, whether the program created the network or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi


@dataclass(frozen=True)
class NetworkAccess:
    """A VPC and its subnets, new or existing."""

    vpc_id: pulumi.Input[str]
    cidrs: Sequence[str]
    """The address ranges of the VPC."""
    private_subnet_ids: Mapping[str, pulumi.Output[str]]
    """By zone, for nodes and pods."""
    control_plane_subnet_ids: Sequence[pulumi.Input[str]]
    """For the interfaces of a new control plane."""
    internet: bool
    """Whether nodes reach the internet."""
    load_balancer_subnet_ids: Mapping[str, Sequence[str]]
    """By `gateway.exposure`; empty if load balancers find their subnets by tags."""
    ready: Sequence[pulumi.Resource] = ()
    """Prerequisites of nodes: routes and endpoints, if this program creates them."""
