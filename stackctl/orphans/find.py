"""Find all remaining resources of a stack, in the order of their removal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from stackctl.orphans import computing, networking, storing
from stackctl.orphans.search import Leftover, Search

FINDERS: Mapping[str, Callable[[Search], Iterator[Leftover]]] = {
    "cluster": computing.cluster,
    "node group": computing.node_groups,
    "load balancer": networking.load_balancers,
    "target group": networking.target_groups,
    "instance": computing.instances,
    "volume": computing.volumes,
    "snapshot": computing.snapshots,
    "file system": storing.file_systems,
    "NAT gateway": networking.nat_gateways,
    "VPC endpoint": networking.endpoints,
    "network interface": networking.interfaces,
    "elastic IP": networking.addresses,
    "security group": networking.security_groups,
    "VPC": networking.vpcs,
    "queue": storing.queues,
    "alarm": storing.alarms,
    "certificate": storing.certificates,
    "log group": storing.log_groups,
    "bucket": storing.buckets,
    "KMS key": storing.keys,
}
"""Finders by kind. Add each new kind that the program, or a service for it, creates."""


def leftovers(search: Search, kinds: Collection[str] = tuple(FINDERS)) -> list[Leftover]:
    """Return the remaining resources of these kinds."""
    return [found for kind in kinds for found in FINDERS[kind](search)]
