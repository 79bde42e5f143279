"""Where EC2 offers the instances of a stack, asked before any resource is registered."""

from __future__ import annotations

from collections.abc import Collection

import pulumi_aws as aws

from spec.zones import ZONES_WITHOUT_EKS, Offering


def read_offering(region: str, instance_types: Collection[str]) -> Offering:
    """Ask EC2 for the zones of `region` and for where each of `instance_types` is offered."""
    # Local zones and wavelength zones carry the opt-in status `opted-in`; EKS control planes cannot use them.
    available = aws.get_availability_zones(
        state="available", filters=[{"name": "opt-in-status", "values": ["opt-in-not-required"]}]
    )
    wanted = sorted(set(instance_types))
    by_type: dict[str, set[str]] = {instance_type: set() for instance_type in wanted}
    if wanted:
        offered = aws.ec2.get_instance_type_offerings(
            location_type="availability-zone", filters=[{"name": "instance-type", "values": wanted}]
        )
        for instance_type, zone in zip(offered.instance_types, offered.locations, strict=True):
            by_type[instance_type].add(zone)
    return Offering(
        region=region,
        available=frozenset(
            name
            for name, zone_id in zip(available.names, available.zone_ids, strict=True)
            if zone_id not in ZONES_WITHOUT_EKS
        ),
        by_type={instance_type: frozenset(zones) for instance_type, zones in by_type.items()},
    )
