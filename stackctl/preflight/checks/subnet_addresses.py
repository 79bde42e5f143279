"""Check that the private subnets have addresses for the maximum number of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spec.catalog import INSTANCE_TYPES
from spec.ownership import tags_of
from spec.settings.relations.network import addresses_of_nodes, addresses_per_zone
from stackctl.preflight.checks.check import Finding, Subject, fail, ok, warn
from stackctl.preflight.checks.usage import instances


def check(subject: Subject) -> Iterator[Finding]:
    """Yield a finding for each existing private subnet; before one exists, the stack file's plan counts.

    The plan was checked with the other settings. In the worst case every node lands in one zone.
    """
    subnets = _private_subnets(subject)
    if not subnets and subject.settings.network.existing is not None:
        return
    if not subnets:
        yield ok(f"planned: {subject.settings.network.cidr} has room for every node group at its max")
        return
    needed = addresses_per_zone(subject.settings, sorted(subnet["AvailabilityZone"] for subnet in subnets))
    for subnet in subnets:
        yield _judge(subject, subnet, needed[subnet["AvailabilityZone"]])


def _judge(subject: Subject, subnet: dict[str, Any], needed: int) -> Finding:
    here = [item["InstanceType"] for item in instances(subject) if item.get("SubnetId") == subnet["SubnetId"]]
    groups = [*subject.settings.nodes.groups, *subject.settings.gpu.pools]
    known = {**INSTANCE_TYPES, **{one.name: one for group in groups for one in group.types}}
    held = sum(addresses_of_nodes([known[name]], 1) for name in here if name in known)
    to_come, free = max(0, needed - held), subnet["AvailableIpAddressCount"]
    says = f"{subnet['SubnetId']} ({subnet['AvailabilityZone']}, {subnet['CidrBlock']}): {free} addresses free"
    remedy = "move what is not a node of this cluster out of the subnet, or lower the pools' max"
    largest = max(addresses_of_nodes(group.types, 1) for group in groups)
    if to_come and free < min(largest, to_come):
        return fail(f"{says}, and the next node takes up to {largest}", remedy)
    if free < to_come:
        return warn(f"{says}, and nodes still to come take up to {to_come}", remedy)
    return ok(f"{says}; nodes still to come take up to {to_come}")


def _private_subnets(subject: Subject) -> list[dict[str, Any]]:
    """Return the stack's own subnets (by their role tag for internal load balancers), or those in its file."""
    existing = subject.settings.network.existing
    if existing is not None:
        named = [{"Name": "subnet-id", "Values": sorted(existing.private_subnet_ids.values())}]
        there = subject.readers("ec2").describe_subnets(Filters=named)["Subnets"]
        return [item for item in there if existing.private_subnet_ids.get(item["AvailabilityZone"]) == item["SubnetId"]]
    role = [{"Name": "tag-key", "Values": ["kubernetes.io/role/internal-elb"]}]
    pages = subject.readers("ec2").get_paginator("describe_subnets").paginate(Filters=role)
    found = [subnet for page in pages for subnet in page["Subnets"] if subject.owner.reason(tags_of(subnet.get("Tags")))]
    return sorted(found, key=lambda subnet: str(subnet["AvailabilityZone"]))
