"""GPU pools, the stack's region and its network."""

from collections.abc import Iterator

from spec.catalog import FAMILY_REGIONS, GPU_FAMILIES, INSTANCE_TYPES, LISTED_REGIONS
from spec.problem import Problem
from spec.settings.relations.subject import PoolSubject, of_each_pool, types_of
from spec.settings.rule import rule, warning
from spec.wording import one_of

_MORE_SIZES = 2


@rule
@of_each_pool
def _types_are_in_the_region(subject: PoolSubject) -> Iterator[Problem]:
    """Require types that the region offers, if spec/catalog.py lists the region (not GovCloud and China)."""
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


@warning
@of_each_pool
def _another_size_is_at_hand(subject: PoolSubject) -> Iterator[Problem]:
    """Warn of a pool with one instance type and a node autoscaler if larger sizes have the same GPUs.

    If the zones have no capacity of the only type, pods wait (https://github.com/aws/karpenter-provider-aws/issues/9554).
    """
    pool = subject.pool
    if subject.document.node_autoscaler == "none" or len(pool.instance_types) != 1 or pool.reservation_id is not None:
        return
    (only,) = types_of(pool)
    larger = [
        known
        for known in INSTANCE_TYPES.values()
        if (known.family, known.gpu_name, known.gpu_memory_gib, known.gpus)
        == (only.family, only.gpu_name, only.gpu_memory_gib, only.gpus)
        and known.vcpus > only.vcpus
        and known.memory_gib >= only.memory_gib
    ]
    nearest = [known.name for known in sorted(larger, key=lambda known: known.vcpus)[:_MORE_SIZES]]
    if nearest:
        yield Problem(
            f"{subject.path}.instanceTypes",
            f"pods wait while EC2 has no {only.name}; add {' and '.join(nearest)} after it, which have the same GPUs, so "
            "that EC2 can start another size",
        )
