"""GPU pools, the stack's region and its network."""

from collections.abc import Iterator

from spec.catalog import FAMILY_REGIONS, GPU_FAMILIES, INSTANCE_TYPES, LISTED_REGIONS
from spec.problem import Problem
from spec.settings.relations.subject import PoolSubject, of_each_pool
from spec.settings.rule import rule
from spec.wording import one_of


@rule
@of_each_pool
def _types_are_in_the_region(subject: PoolSubject) -> Iterator[Problem]:
    """Require types that the region has, where spec/catalog.py knows it (not of GovCloud and China)."""
    region = subject.document.region
    if region not in LISTED_REGIONS:
        return
    there = [family for family in GPU_FAMILIES if region in FAMILY_REGIONS[family]]
    valid = f"that region has {one_of(there)}" if there else "that region has no GPUs at all, use another one"
    for index, known in enumerate(INSTANCE_TYPES.get(name) for name in subject.pool.instance_types):
        if known and known.gpus and known.family not in there:
            yield Problem(f"{subject.path}.instanceTypes[{index}]", f"EC2 has no {known.family} in {region}; {valid}")


@rule
@of_each_pool
def _zones_are_the_networks(subject: PoolSubject) -> Iterator[Problem]:
    """Require zones of the network, which then has to list its zones by name."""
    zones, here = subject.pool.zones, subject.document.network.node_zones
    for index, zone in enumerate(zones or ()):
        path = f"{subject.path}.zones[{index}]"
        if zone in (zones or ())[:index]:
            continue
        if isinstance(here, int):
            yield Problem(
                path,
                f"'{zone}' may not be among the {here} zones that network.zones chooses; "
                "list the zones by name in network.zones",
            )
        elif zone not in here:
            yield Problem(path, f"'{zone}' is not a zone of the network; use {one_of(here)}")
