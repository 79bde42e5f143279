"""Choose zones in which EC2 offers a stack's instances, before any resource is registered."""

from __future__ import annotations

from collections.abc import Collection

import pulumi_aws as aws

from spec.settings import Settings
from spec.zones import ZONES_WITHOUT_EKS, Offering, PoolPlacement, control_plane_zones, select_zones


def read_offering(region: str, instance_types: Collection[str]) -> Offering:
    """Return EC2's zones of `region` and the zones that offer each of `instance_types`."""
    # Local zones and wavelength zones have the opt-in status `opted-in`; EKS control planes cannot use them.
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


def choose_zones(settings: Settings, source: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the zones of a stack's network and of its control plane. The former offer the stack's instances.

    The latter are empty in an existing VPC, whose subnets are given. Raises SettingsError about the stack file `source` if
    the region does not offer the required instances.
    """
    network = settings.network
    pools = [PoolPlacement(pool.instance_types, pool.zones) for pool in settings.gpu.pools]
    cpu_types = settings.nodes.instance_types
    asked = [*(instance_type for pool in pools for instance_type in pool.instance_types), *cpu_types]
    offering = read_offering(settings.region, asked)
    zones = select_zones(network.node_zones, pools, cpu_types, offering, source, network.path_of_zone)
    return zones, control_plane_zones(zones, offering, source) if network.existing is None else ()
