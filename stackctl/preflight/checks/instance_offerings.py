"""Check that the stack's zones offer its instance types, by the program's rules (`spec.zones`)."""

from __future__ import annotations

from collections.abc import Iterator

from spec.settings import SettingsError
from spec.stack_names import stack_file
from spec.zones import ZONES_WITHOUT_EKS, Offering, PoolPlacement, select_zones
from stackctl.account.read_only import Readers
from stackctl.preflight.checks.check import Finding, Subject, fail, ok


def check(subject: Subject) -> Iterator[Finding]:
    """Yield the zones of the stack, or the missing types with their zones."""
    try:
        zones, offering = stack_zones(subject)
    except SettingsError as error:
        for problem in error.problems:
            remedy = f"choose other zones or types in {error.source}, or confine a pool to the zones that have its types"
            yield fail(str(problem), remedy)
        return
    yield ok(f"{', '.join(offering.by_type)} are offered in {', '.join(zones)}; that is no promise of capacity")


def stack_zones(subject: Subject) -> tuple[tuple[str, ...], Offering]:
    """Return the zones of the stack's nodes, and EC2's offering. Raises SettingsError."""
    settings, network = subject.settings, subject.settings.network
    pools = [PoolPlacement(pool.instance_types, pool.zones) for pool in settings.gpu.pools]
    cpu_types = settings.nodes.instance_types
    offering = read_offering(
        subject.readers, sorted({*cpu_types, *(name for pool in pools for name in pool.instance_types)})
    )
    file = stack_file(settings.stack)
    return select_zones(network.node_zones, pools, cpu_types, offering, file, network.path_of_zone), offering


def read_offering(readers: Readers, instance_types: list[str]) -> Offering:
    """Return the region's zones and the zones that offer each type, from EC2."""
    ec2 = readers("ec2")
    in_region = [{"Name": "opt-in-status", "Values": ["opt-in-not-required"]}, {"Name": "state", "Values": ["available"]}]
    zones = ec2.describe_availability_zones(Filters=in_region)["AvailabilityZones"]
    by_type: dict[str, set[str]] = {name: set() for name in instance_types}
    pages = ec2.get_paginator("describe_instance_type_offerings").paginate(
        LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": instance_types}]
    )
    for page in pages:
        for offer in page["InstanceTypeOfferings"]:
            by_type[offer["InstanceType"]].add(offer["Location"])
    return Offering(
        region=readers.region,
        available=frozenset(zone["ZoneName"] for zone in zones if zone["ZoneId"] not in ZONES_WITHOUT_EKS),
        by_type={name: frozenset(offered) for name, offered in by_type.items()},
    )
