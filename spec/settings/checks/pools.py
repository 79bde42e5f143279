"""GPU pools: instance types that Triton can use and that agree with one another, capacity, zones, sharing."""

from collections.abc import Iterator

from spec.catalog import (
    CAPACITY_BLOCK_FAMILIES,
    FAMILY_REGIONS,
    GPU_FAMILIES,
    INSTANCE_TYPES,
    UNSUITABLE_FAMILIES,
    InstanceType,
)
from spec.settings.checks.sizes import sizes_are_ordered
from spec.settings.checks.subject import Check, PoolCheck, PoolSubject, Subject, pool_name
from spec.settings.nodes import SYSTEM_GROUP_NAME
from spec.settings.problem import Problem
from spec.wording import did_you_mean, one_of


def known_types(names: tuple[str, ...]) -> list[InstanceType]:
    """The GPU types among these names."""
    types = (INSTANCE_TYPES.get(name) for name in names)
    return [known for known in types if known and known.gpus]


def _names_are_distinct(subject: Subject) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, pool in enumerate(subject.document.gpu.pools):
        name = pool_name(pool)
        if name in seen:
            yield Problem(f"gpu.pools[{index}].name", f"'{name}' is the name of another pool; give each its own")
        elif name is not None:
            seen.add(name)


def _name_is_not_the_system_groups(subject: PoolSubject) -> Iterator[Problem]:
    """Both would carry the same node label, so that pods for one could land on the other."""
    if subject.pool.name == SYSTEM_GROUP_NAME:
        yield Problem(f"{subject.path}.name", f"'{SYSTEM_GROUP_NAME}' is the name of the system nodes; use another")


def _sizes(subject: PoolSubject) -> Iterator[Problem]:
    yield from sizes_are_ordered(subject.pool, subject.path)


def _types_are_usable(subject: PoolSubject) -> Iterator[Problem]:
    for index, name in enumerate(subject.pool.instance_types):
        path, known = f"{subject.path}.instanceTypes[{index}]", INSTANCE_TYPES.get(name)
        if name in subject.pool.instance_types[:index]:
            yield Problem(path, f"'{name}' is listed twice; list each type once")
        elif known and not known.gpus:
            yield Problem(path, f"'{name}' has no GPU; use a type of {one_of(GPU_FAMILIES)}")
        elif reason := UNSUITABLE_FAMILIES.get(name.partition(".")[0]):
            yield Problem(path, f"'{name}' cannot be used: {reason}; use a type of {one_of(GPU_FAMILIES)}")
        elif known is None:
            yield Problem(path, _unknown_type(name))


def _unknown_type(name: str) -> str:
    gpu_types = [t.name for t in INSTANCE_TYPES.values() if t.gpus]
    family = name.partition(".")[0]
    valid = (
        f"use one of {', '.join(t for t in gpu_types if t.startswith(family + '.'))}"
        if family in GPU_FAMILIES
        else f"use a type of {one_of(GPU_FAMILIES)}"
    )
    return f"unknown instance type '{name}'; {did_you_mean(name, gpu_types)}{valid}"


def _types_are_in_the_region(subject: PoolSubject) -> Iterator[Problem]:
    region = subject.document.region
    there = [family for family in GPU_FAMILIES if region in FAMILY_REGIONS[family]]
    valid = f"that region has {one_of(there)}" if there else "that region has no GPUs at all, use another one"
    for index, known in enumerate(INSTANCE_TYPES.get(name) for name in subject.pool.instance_types):
        if known and known.gpus and known.family not in there:
            yield Problem(f"{subject.path}.instanceTypes[{index}]", f"EC2 has no {known.family} in {region}; {valid}")


def _types_agree(subject: PoolSubject) -> Iterator[Problem]:
    """A model's instances and a pod's GPU count are the same on every node of a pool."""
    types = known_types(subject.pool.instance_types)
    for known in types[1:]:
        first = types[0]
        if (known.gpu_name, known.gpu_memory_gib, known.gpus) != (first.gpu_name, first.gpu_memory_gib, first.gpus):
            yield Problem(
                f"{subject.path}.instanceTypes",
                f"{first.name} has {first.gpus} x {first.gpu_name} {first.gpu_memory_gib} GiB and {known.name} "
                f"{known.gpus} x {known.gpu_name} {known.gpu_memory_gib} GiB; give types with the same GPUs, "
                "or make two pools",
            )


def _reservation_belongs_to_capacity(subject: PoolSubject) -> Iterator[Problem]:
    pool = subject.pool
    reserved = pool.capacity in ("reservation", "capacity-block")
    if reserved and pool.reservation_id is None:
        yield Problem(
            f"{subject.path}.reservationId",
            f"is missing; capacity '{pool.capacity}' needs the id of the reservation, like cr-0123456789abcdef0",
        )
    if not reserved and pool.reservation_id is not None:
        yield Problem(
            f"{subject.path}.reservationId",
            f"capacity '{pool.capacity}' uses no reservation; remove it, or use capacity: reservation or capacity-block",
        )


def _reserved_capacity_is_in_one_place(subject: PoolSubject) -> Iterator[Problem]:
    pool = subject.pool
    if pool.capacity not in ("reservation", "capacity-block"):
        return
    if len(pool.instance_types) != 1:
        yield Problem(
            f"{subject.path}.instanceTypes",
            f"a {pool.capacity} is for one instance type, here are {len(pool.instance_types)}; give that one",
        )
    if pool.zones is None or len(pool.zones) != 1:
        yield Problem(f"{subject.path}.zones", f"a {pool.capacity} is in one zone; give exactly that zone")


def _capacity_blocks_exist(subject: PoolSubject) -> Iterator[Problem]:
    if subject.pool.capacity != "capacity-block":
        return
    for known in known_types(subject.pool.instance_types):
        if known.family not in CAPACITY_BLOCK_FAMILIES:
            yield Problem(
                f"{subject.path}.capacity",
                f"there are no capacity blocks of {known.family}; "
                f"use {one_of(sorted(CAPACITY_BLOCK_FAMILIES))}, or another capacity",
            )


def _zones_are_the_networks(subject: PoolSubject) -> Iterator[Problem]:
    zones, network = subject.pool.zones, subject.document.network
    for index, zone in enumerate(zones or ()):
        path = f"{subject.path}.zones[{index}]"
        if zone in (zones or ())[:index]:
            yield Problem(path, f"'{zone}' is listed twice; list each zone once")
        elif isinstance(network.zones, int):
            yield Problem(
                path,
                f"'{zone}' may not be among the {network.zones} zones that network.zones chooses; "
                "list the zones by name in network.zones",
            )
        elif zone not in network.zones:
            yield Problem(path, f"'{zone}' is not a zone of the network; use {one_of(network.zones)}")


def _efa_is_possible(subject: PoolSubject) -> Iterator[Problem]:
    pool = subject.pool
    if not pool.efa:
        return
    with_efa = [t.name for t in INSTANCE_TYPES.values() if t.efa_interfaces]
    for known in known_types(pool.instance_types):
        if not known.efa_interfaces:
            yield Problem(f"{subject.path}.efa", f"{known.name} has no EFA; use one of {', '.join(with_efa)}")
    if pool.zones is None or len(pool.zones) != 1:
        yield Problem(f"{subject.path}.zones", "EFA does not cross zones; give exactly one zone")


def _shared_gpus_are_shared(subject: PoolSubject) -> Iterator[Problem]:
    sharing = subject.pool.sharing
    if sharing.strategy == "exclusive" and sharing.replicas != 1:
        yield Problem(f"{subject.path}.sharing.replicas", f"{sharing.replicas} pods cannot share an exclusive GPU; use 1")
    if sharing.strategy != "exclusive" and sharing.replicas < 2:
        yield Problem(
            f"{subject.path}.sharing.replicas",
            f"{sharing.replicas} is no sharing; use 2 to 48, or sharing: exclusive",
        )


def _gpus_can_be_cut(subject: PoolSubject) -> Iterator[Problem]:
    """The types of a pool have the same GPU, so that the first speaks for all of them."""
    sharing, path = subject.pool.sharing, f"{subject.path}.sharing"
    if sharing.strategy != "mig":
        if sharing.profile is not None:
            yield Problem(f"{path}.profile", f"{sharing.strategy} has none; remove it, or use strategy: mig")
        return
    for known in known_types(subject.pool.instance_types)[:1]:
        profiles = known.mig_profiles
        wanted = profiles.get(sharing.profile or "")
        if not profiles:
            able = list(dict.fromkeys(t.family for t in INSTANCE_TYPES.values() if t.mig_profiles))
            yield Problem(
                f"{path}.strategy", f"the {known.gpu_name} of {known.name} has no MIG; use a type of {one_of(able)}, or mps"
            )
        elif wanted is None:
            why = "is missing" if sharing.profile is None else f"'{sharing.profile}' is no way to cut this GPU"
            gpu = f"{known.gpu_name} with {known.gpu_memory_gib} GB"
            yield Problem(f"{path}.profile", f"{why}; for an {gpu} use {one_of(profiles)}")
        elif sharing.replicas != wanted.instances:
            yield Problem(
                f"{path}.replicas",
                f"{sharing.replicas} is not the number of {sharing.profile} instances of an {known.gpu_name}; "
                f"use {wanted.instances}",
            )


CHECKS: tuple[Check, ...] = (_names_are_distinct,)
POOL_CHECKS: tuple[PoolCheck, ...] = (
    _name_is_not_the_system_groups,
    _sizes,
    _types_are_usable,
    _types_are_in_the_region,
    _types_agree,
    _reservation_belongs_to_capacity,
    _reserved_capacity_is_in_one_place,
    _capacity_blocks_exist,
    _zones_are_the_networks,
    _efa_is_possible,
    _shared_gpus_are_shared,
    _gpus_can_be_cut,
)
