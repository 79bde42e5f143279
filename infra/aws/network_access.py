"""The ids of a network for components, without the component that made the network, or without one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi


@dataclass(frozen=True)
class NetworkAccess:
    """A VPC and its subnets, whoever made them."""

    vpc_id: pulumi.Input[str]
    cidrs: Sequence[str]
    """The address ranges of the VPC."""
    private_subnet_ids: Mapping[str, pulumi.Output[str]]
    """By zone. For nodes and pods."""
    control_plane_subnet_ids: Sequence[pulumi.Input[str]]
    """For the interfaces of a control plane that is made in it."""
    internet: bool
    """Whether nodes reach the internet."""
    load_balancer_subnet_ids: Mapping[str, Sequence[str]]
    """By `gateway.exposure`; none where load balancers find their subnets by the tags of these."""
    ready: Sequence[pulumi.Resource] = ()
    """Resources that nodes wait for: routes and endpoints, where this program makes them."""
