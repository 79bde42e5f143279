"""Measure how much of a quota others use; the stack can have the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from spec.catalog import INSTANCE_TYPES
from spec.ownership import tags_of
from stackctl import quotas as needs
from stackctl.preflight.checks.check import Subject
from stackctl.quotas import Quota, instance_quota

_RUNNING = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
# NAT gateways in deletion count too (VPC user guide, quotas).
_LIVING_NAT = [{"Name": "state", "Values": ["pending", "available", "deleting"]}]


def used_by_others(quota: Quota, subject: Subject) -> int:
    """Return the units of `quota` that others use; for a quota per zone, in the fullest zone."""
    count = _COUNTS.get(quota)
    return count(subject) if count is not None else _vcpus(quota, subject)


def instances(subject: Subject) -> Iterator[dict[str, Any]]:
    """Yield all running or pending instances of the region."""
    for page in subject.readers("ec2").get_paginator("describe_instances").paginate(Filters=_RUNNING):
        for reservation in page["Reservations"]:
            yield from reservation["Instances"]


def _vcpus(quota: Quota, subject: Subject) -> int:
    return sum(
        _vcpus_of(instance)
        for instance in instances(subject)
        if instance_quota(instance["InstanceType"], spot=instance.get("InstanceLifecycle") == "spot") == quota
        and instance.get("InstanceLifecycle") != "capacity-block"
        and _is_foreign(subject, instance.get("Tags"))
    )


def _vcpus_of(instance: Mapping[str, Any]) -> int:
    options = instance.get("CpuOptions")
    if options:
        return int(options["CoreCount"]) * int(options["ThreadsPerCore"])
    known = INSTANCE_TYPES.get(instance["InstanceType"])
    return known.vcpus if known is not None else 0


def _addresses(subject: Subject) -> int:
    return _foreign(subject, subject.readers("ec2").describe_addresses()["Addresses"])


def _vpcs(subject: Subject) -> int:
    return sum(_foreign(subject, page["Vpcs"]) for page in subject.readers("ec2").get_paginator("describe_vpcs").paginate())


def _internet_gateways(subject: Subject) -> int:
    pages = subject.readers("ec2").get_paginator("describe_internet_gateways").paginate()
    return sum(_foreign(subject, page["InternetGateways"]) for page in pages)


def _nat_gateways(subject: Subject) -> int:
    ec2 = subject.readers("ec2")
    pages = ec2.get_paginator("describe_subnets").paginate()
    zones = {subnet["SubnetId"]: subnet["AvailabilityZone"] for page in pages for subnet in page["Subnets"]}
    counts: dict[str, int] = {}
    for page in ec2.get_paginator("describe_nat_gateways").paginate(Filters=_LIVING_NAT):
        for gateway in page["NatGateways"]:
            if _is_foreign(subject, gateway.get("Tags")):
                zone = zones.get(gateway.get("SubnetId", ""), "")
                counts[zone] = counts.get(zone, 0) + 1
    return max(counts.values(), default=0)


def _clusters(subject: Subject) -> int:
    pages = subject.readers("eks").get_paginator("list_clusters").paginate()
    return sum(name != subject.settings.cluster_name for page in pages for name in page["clusters"])


def _node_groups(subject: Subject) -> int:
    if subject.settings.cluster.existing is None:
        return 0  # the program's own cluster has no others
    eks, cluster = subject.readers("eks"), subject.settings.cluster_name
    names = [
        name for page in eks.get_paginator("list_nodegroups").paginate(clusterName=cluster) for name in page["nodegroups"]
    ]
    groups = (eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"] for name in names)
    return sum(subject.owner.reason(group.get("tags", {})) is None for group in groups)


def _foreign(subject: Subject, items: list[dict[str, Any]]) -> int:
    return sum(_is_foreign(subject, item.get("Tags")) for item in items)


def _is_foreign(subject: Subject, tags: Any) -> bool:
    return subject.owner.reason(tags_of(tags)) is None


_COUNTS: Mapping[Quota, Callable[[Subject], int]] = {
    needs.ADDRESSES: _addresses,
    needs.VPCS: _vpcs,
    needs.INTERNET_GATEWAYS: _internet_gateways,
    needs.NAT_GATEWAYS: _nat_gateways,
    needs.CLUSTERS: _clusters,
    needs.NODE_GROUPS: _node_groups,
    needs.NODES_OF_A_GROUP: lambda _: 0,  # per group, and the group belongs to the stack
}
