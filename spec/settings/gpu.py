"""GPU node groups: `triton-eks:gpu`."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field

from spec.catalog import CAPACITY_BLOCK_FAMILIES, GPU_FAMILIES, INSTANCE_TYPES, UNSUITABLE_FAMILIES, InstanceType
from spec.charts import NVIDIA_DEVICE_PLUGIN, ChartPin
from spec.problem import Problem, describe
from spec.settings.fields import DnsLabel, Name, ReservationId
from spec.settings.kind import between, refuse
from spec.settings.nodes import SYSTEM_GROUP_NAME, GroupMax, GroupMin, InstanceTypes, NodeGroup, sizes_in_order
from spec.settings.rule import Place, rule
from spec.settings.section import Absent, Section
from spec.wording import did_you_mean, one_of

# Below these sizes nodeadm ignores the feature gate (docs/facts/gpu-nodes.md#parallel-image-pulls).
_SOCI_VCPUS, _SOCI_MEMORY_GIB = 4, 8


class Sharing(Section):
    """How the pods on a node share one GPU."""

    guide: ClassVar[str] = "docs/autoscaling.md#parts-of-a-gpu"

    strategy: Literal["exclusive", "time-slicing", "mps", "mig"] = Field(description="time-slicing, mps or mig")
    replicas: Annotated[int, between(1, 48, "pods per GPU")] = Field(description="how many pods share one GPU, 2 to 48")
    profile: Name | None = Field(
        default=None,
        description="the profile of MIG, which cuts a GPU into instances with memory of their own, like 1g.10gb; "
        "required with strategy: mig, else forbidden",
    )

    @rule
    def _shared_gpus_are_shared(self, at: Place) -> Iterator[Problem]:
        """Require one pod per GPU with exclusive, and at least two with the other strategies."""
        if self.strategy == "exclusive" and self.replicas != 1:
            yield at.problem("replicas", f"{self.replicas} pods cannot share an exclusive GPU; use 1")
        if self.strategy != "exclusive" and self.replicas < 2:
            yield at.problem("replicas", f"{self.replicas} is no sharing; use 2 to 48, or sharing: exclusive")

    @rule
    def _profile_is_of_mig(self, at: Place) -> Iterator[Problem]:
        """Refuse a profile with a strategy other than mig."""
        if self.strategy != "mig" and self.profile is not None:
            yield at.problem("profile", f"{self.strategy} has none; remove it, or use strategy: mig")


EXCLUSIVE = Sharing.model_construct(strategy="exclusive", replicas=1, profile=None)


def _sharing(value: Any) -> Any:
    """Expand the short form `exclusive` to its mapping: one pod per GPU."""
    if value == "exclusive":
        return {"strategy": "exclusive", "replicas": 1}
    if not isinstance(value, dict):
        ways = "{strategy: time-slicing, replicas: 4} (or mps), or {strategy: mig, profile: 1g.10gb, replicas: 7}"
        refuse(f"{describe(value)}; use exclusive, {ways}")
    return value


class GpuPool(NodeGroup):
    """One GPU node group."""

    name: DnsLabel = Field(description="a name that is unique among the pools")
    instance_types: InstanceTypes = Field(description="a list like [g5.xlarge]")
    capacity: Literal["on-demand", "spot", "reservation", "capacity-block"] = Field(
        description="on-demand, spot, reservation or capacity-block"
    )
    min: GroupMin = Field(description="the smallest number of nodes")
    desired: GroupMin = Field(description="the number of nodes")
    max: GroupMax = Field(description="the largest number of nodes")
    disk_gib: Annotated[int, between(100, 16384, "GiB (the Triton image alone unpacks to more than 20)")] = Field(
        description="the root volume in GiB, like 200"
    )
    zones: Annotated[tuple[Name, ...], Field(min_length=1)] | None = Field(
        default=None, description="the availability zones of its nodes; without it: every zone of the network"
    )
    sharing: Annotated[Sharing, BeforeValidator(_sharing, json_schema_input_type=Literal["exclusive"] | Sharing)] = Field(
        default=EXCLUSIVE,
        description="exclusive, or how pods share a GPU, like {strategy: time-slicing, replicas: 4}; without it: "
        "one pod has a GPU to itself",
    )
    reservation_id: ReservationId | None = Field(
        default=None,
        description="the capacity reservation or capacity block that its nodes start in; required with capacity: "
        "reservation or capacity-block, else forbidden",
    )

    image_pull: Literal["standard", "soci"] = Field(
        default="standard",
        description="standard, or soci: the layers of an image are fetched and unpacked in parallel, for which every type "
        "needs an instance store",
    )
    model_cache_gib: Annotated[int, between(1, 65_536, "GiB")] | None = Field(
        default=None,
        description="GiB of releases that each node keeps for its pods, like 100: one downloads a release, the others copy "
        "it; for models.access: local; without it: each pod downloads its own",
    )

    @property
    def gpu_types(self) -> list[InstanceType]:
        """Return the known types with a GPU, in order."""
        return [known for known in self.types if known.gpus]

    @rule
    def _name_is_not_the_system_groups(self, at: Place) -> Iterator[Problem]:
        """Refuse the name of the system nodes. Both groups would have the same node label, so pods could land on the wrong
        one."""
        if self.name == SYSTEM_GROUP_NAME:
            yield at.problem("name", f"'{SYSTEM_GROUP_NAME}' is the name of the system nodes; use another")

    @rule
    def _sizes_are_ordered(self, at: Place) -> Iterator[Problem]:
        """Require min <= desired <= max."""
        yield from sizes_in_order(at, self.min, self.desired, self.max)

    @rule
    def _types_are_usable(self, at: Place) -> Iterator[Problem]:
        """Require known types with a GPU that Triton supports, each once."""
        for index, name in enumerate(self.instance_types):
            key, found = f"instanceTypes[{index}]", self.known(name)
            if name in self.instance_types[:index]:
                yield at.problem(key, f"'{name}' is listed twice; list each type once")
            elif found and not found.gpus:
                yield at.problem(key, f"'{name}' has no GPU; use a type of {one_of(GPU_FAMILIES)}")
            elif reason := UNSUITABLE_FAMILIES.get(name.partition(".")[0]):
                yield at.problem(key, f"'{name}' cannot be used: {reason}; use a type of {one_of(GPU_FAMILIES)}")
            elif found is None:
                yield at.problem(key, _unknown_type(name))

    @rule
    def _types_agree(self, at: Place) -> Iterator[Problem]:
        """Require types with the same GPUs. A model's instances and a pod's GPUs are the same on every node of a pool."""
        types = self.gpu_types
        for found in types[1:]:
            first = types[0]
            if (found.gpu_name, found.gpu_memory_gib, found.gpus) != (first.gpu_name, first.gpu_memory_gib, first.gpus):
                yield at.problem(
                    "instanceTypes",
                    f"{first.name} has {first.gpus} x {first.gpu_name} {first.gpu_memory_gib} GiB and {found.name} "
                    f"{found.gpus} x {found.gpu_name} {found.gpu_memory_gib} GiB; give types with the same GPUs, "
                    "or make two pools",
                )

    @rule
    def _reservation_belongs_to_capacity(self, at: Place) -> Iterator[Problem]:
        """Require reservationId with capacity reservation or capacity-block, and refuse it with the others."""
        reserved = self.capacity in ("reservation", "capacity-block")
        if reserved and self.reservation_id is None:
            yield at.problem(
                "reservationId",
                f"is missing; capacity '{self.capacity}' needs the id of the reservation, like cr-0123456789abcdef0",
            )
        if not reserved and self.reservation_id is not None:
            yield at.problem(
                "reservationId",
                f"capacity '{self.capacity}' uses no reservation; remove it, or use capacity: reservation or capacity-block",
            )

    @rule
    def _reserved_capacity_is_in_one_place(self, at: Place) -> Iterator[Problem]:
        """Require one instance type and one zone for reserved capacity."""
        if self.capacity not in ("reservation", "capacity-block"):
            return
        if len(self.instance_types) != 1:
            yield at.problem(
                "instanceTypes",
                f"a {self.capacity} is for one instance type, here are {len(self.instance_types)}; give that one",
            )
        if self.zones is None or len(self.zones) != 1:
            yield at.problem("zones", f"a {self.capacity} is in one zone; give exactly that zone")

    @rule
    def _capacity_blocks_exist(self, at: Place) -> Iterator[Problem]:
        """Require a type for which AWS sells capacity blocks, for capacity-block."""
        if self.capacity != "capacity-block":
            return
        for found in self.gpu_types:
            if found.family not in CAPACITY_BLOCK_FAMILIES:
                yield at.problem(
                    "capacity",
                    f"there are no capacity blocks of {found.family}; "
                    f"use {one_of(sorted(CAPACITY_BLOCK_FAMILIES))}, or another capacity",
                )

    @rule
    def _zones_are_distinct(self, at: Place) -> Iterator[Problem]:
        """Require each zone once."""
        zones = self.zones or ()
        for index, zone in enumerate(zones):
            if zone in zones[:index]:
                yield at.problem(f"zones[{index}]", f"'{zone}' is listed twice; list each zone once")

    @rule
    def _images_unpack_onto_fast_disks(self, at: Place) -> Iterator[Problem]:
        """Require an instance store, 4 vCPUs and 8 GiB of every type, for imagePull: soci.

        With less memory or fewer vCPUs nodeadm ignores the setting silently. If images are unpacked onto a disk with less
        than 600 MiB/s, pulls become slower (docs/facts/gpu-nodes.md#parallel-image-pulls).
        """
        if self.image_pull != "soci":
            return
        for found in self.gpu_types:
            if not found.nvme_gib:
                yield at.problem(
                    "imagePull",
                    f"{found.name} has no instance store, and pulls onto its root volume would be slower with soci; use "
                    "standard, or types with an instance store",
                )
            elif found.vcpus < _SOCI_VCPUS or found.memory_gib < _SOCI_MEMORY_GIB:
                yield at.problem(
                    "imagePull",
                    f"{found.name} has {found.vcpus} vCPUs and {found.memory_gib} GiB, and the node ignores soci below "
                    f"{_SOCI_VCPUS} and {_SOCI_MEMORY_GIB}; use standard, or larger types",
                )

    @rule
    def _gpus_can_be_cut(self, at: Place) -> Iterator[Problem]:
        """Require GPUs with MIG, one of their profiles and its number of instances, for strategy mig.

        The types of a pool have the same GPU, so checking the first is enough.
        """
        sharing = self.sharing
        if sharing.strategy != "mig":
            return
        for found in self.gpu_types[:1]:
            profiles = found.mig_profiles
            wanted = profiles.get(sharing.profile or "")
            if not profiles:
                able = list(dict.fromkeys(known.family for known in INSTANCE_TYPES.values() if known.mig_profiles))
                yield at.problem(
                    "sharing.strategy",
                    f"spec/catalog.py has no MIG profile of the {found.gpu_name} of {found.name}; "
                    f"use a type of {one_of(able)}, or mps",
                )
            elif wanted is None:
                why = "is missing" if sharing.profile is None else f"'{sharing.profile}' is no way to cut this GPU"
                gpu = f"{found.gpu_name} with {found.gpu_memory_gib} GB"
                yield at.problem("sharing.profile", f"{why}; for an {gpu} use {one_of(profiles)}")
            elif sharing.replicas != wanted.instances:
                yield at.problem(
                    "sharing.replicas",
                    f"{sharing.replicas} is not the number of {sharing.profile} instances of an {found.gpu_name}; "
                    f"use {wanted.instances}",
                )


def _unknown_type(name: str) -> str:
    gpu_types = [known.name for known in INSTANCE_TYPES.values() if known.gpus]
    family = name.partition(".")[0]
    valid = (
        f"use one of {', '.join(known for known in gpu_types if known.startswith(family + '.'))}"
        if family in GPU_FAMILIES
        else f"use a type of {one_of(GPU_FAMILIES)}"
    )
    return f"unknown instance type '{name}'; {did_you_mean(name, gpu_types)}{valid}, or describe it in instanceTypes"


def reserved_in(pool: GpuPool) -> tuple[str, tuple[str, ...], tuple[str, ...]] | None:
    """Return the reservation, types and zones of a pool; None if it has no reservation or one of these values is invalid."""
    try:
        return (pool.reservation_id, pool.instance_types, pool.zones or ()) if pool.reservation_id is not None else None
    except Absent:
        return None


def pool_name(pool: GpuPool) -> str | None:
    """Return the name of a pool; None if it is missing or invalid. A search among the other pools can then continue."""
    try:
        return pool.name
    except Absent:
        return None


class Gpu(Section):
    """GPU node groups."""

    guide: ClassVar[str] = "docs/autoscaling.md#nodes"

    pools: Annotated[tuple[GpuPool, ...], Field(min_length=1)] = Field(description="a list of GPU pools")

    @classmethod
    def none(cls) -> Self:
        """Return an empty section for a stack without GPUs."""
        return cls.model_construct(pools=())

    @property
    def installs(self) -> tuple[ChartPin, ...]:
        """Return the chart of the device plugin."""
        return (NVIDIA_DEVICE_PLUGIN,) if self.pools else ()

    @rule
    def _names_are_distinct(self, at: Place) -> Iterator[Problem]:
        """Require a unique name for each pool."""
        seen: set[str] = set()
        for index, pool in enumerate(self.pools):
            name = pool_name(pool)
            if name in seen:
                yield at.problem(f"pools[{index}].name", f"'{name}' is the name of another pool; give each its own")
            elif name is not None:
                seen.add(name)

    @rule
    def _reservations_are_of_one_place(self, at: Place) -> Iterator[Problem]:
        """Refuse pools that share a reservation and differ in types or zones. A reservation is for one type in one zone."""
        first: dict[str, tuple[int, tuple[tuple[str, ...], tuple[str, ...]]]] = {}
        for index, pool in enumerate(self.pools):
            found = reserved_in(pool)
            if found is None:
                continue
            reservation, *place = found
            other, elsewhere = first.setdefault(reservation, (index, (place[0], place[1])))
            if elsewhere != (place[0], place[1]):
                yield at.problem(
                    f"pools[{index}].reservationId",
                    f"{reservation} is that of pools[{other}], whose instance type or zone is another, and a reservation is "
                    "for one type in one zone; give each pool its own",
                )
