"""Node groups without GPUs, and the node autoscaler: `triton-eks:nodes`."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, PrivateAttr

from spec.catalog import CPU_FAMILIES, INSTANCE_TYPES, InstanceType
from spec.problem import Problem
from spec.settings.fields import Name
from spec.settings.kind import between
from spec.settings.rule import Place, rule
from spec.settings.section import Section
from spec.wording import did_you_mean, one_of

SYSTEM_GROUP_NAME = "system"
"""The name of the system group in resource names, tags and node labels."""
CPU_POOL_NAME = "cpu"
"""The name of the node group for workers."""

NodeAutoscaler = Literal["none", "karpenter", "cluster-autoscaler"]
GroupMin = Annotated[int, between(0, 450, "nodes")]
GroupMax = Annotated[int, between(1, 450, "nodes")]
InstanceTypes = Annotated[tuple[Name, ...], Field(min_length=1)]


def sizes_in_order(at: Place, least: int, desired: int, most: int) -> Iterator[Problem]:
    """Require min <= desired <= max, as EKS does. Reports one problem, at the value that is out of order."""
    if least > most:
        yield at.problem("min", f"{least} is more than max {most}; give min <= desired <= max")
    elif desired < least:
        yield at.problem("desired", f"{desired} is less than min {least}; give {least} to {most}")
    elif desired > most:
        yield at.problem("desired", f"{desired} is more than max {most}; give {least} to {most}")


class NodeGroup(Section):
    """The instance types of a node group, and the properties of the known ones."""

    called: ClassVar[str] = "nodes"

    if TYPE_CHECKING:  # each group declares it as a field, at its position in the reference
        instance_types: tuple[str, ...]

    _described: Mapping[str, InstanceType] = PrivateAttr(default_factory=dict)

    def describe(self, described: Mapping[str, InstanceType]) -> None:
        """Set the types that the stack file itself describes (`triton-eks:instanceTypes`)."""
        self._described = described

    @property
    def types(self) -> list[InstanceType]:
        """Return the known types, in order."""
        known = {**INSTANCE_TYPES, **self._described}
        return [known[name] for name in self.instance_types if name in known]

    def known(self, name: str) -> InstanceType | None:
        """Return the properties of a type; None if it is unknown."""
        return self._described.get(name) or INSTANCE_TYPES.get(name)


def types_without_gpu(group: NodeGroup, at: Place) -> Iterator[Problem]:
    """Require known types without a GPU, each once."""
    cpu_types = [known.name for known in INSTANCE_TYPES.values() if not known.gpus]
    for index, name in enumerate(group.instance_types):
        key, found = f"instanceTypes[{index}]", group.known(name)
        if name in group.instance_types[:index]:
            yield at.problem(key, f"'{name}' is listed twice; list each type once")
        elif found is None:
            yield at.problem(
                key,
                f"unknown instance type '{name}'; {did_you_mean(name, cpu_types)}use a type of {one_of(CPU_FAMILIES)}, "
                "or describe it in instanceTypes",
            )
        elif found.gpus:
            yield at.problem(
                key,
                f"'{name}' has a GPU, which {group.called} would waste; use {one_of(CPU_FAMILIES)}, "
                "and gpu.pools for GPU nodes",
            )


class SystemGroup(NodeGroup):
    """The node group of cluster services, without GPUs and taints."""

    called: ClassVar[str] = "system nodes"

    instance_types: InstanceTypes = Field(description="a list like [m7i.large]")
    min: GroupMin = Field(description="the smallest number of nodes")
    desired: GroupMin = Field(description="the number of nodes")
    max: GroupMax = Field(description="the largest number of nodes")
    disk_gib: Annotated[int, between(20, 16384, "GiB")] = Field(description="the root volume in GiB, like 50")

    @rule
    def _sizes_are_ordered(self, at: Place) -> Iterator[Problem]:
        """Require min <= desired <= max."""
        yield from sizes_in_order(at, self.min, self.desired, self.max)

    @rule
    def _never_empty(self, at: Place) -> Iterator[Problem]:
        """Require at least one node for DNS and the metrics server."""
        if self.min < 1:
            yield at.problem("min", "0 leaves no node for DNS and the metrics server; use at least 1")

    @rule
    def _types_have_no_gpu(self, at: Place) -> Iterator[Problem]:
        """Require known types without a GPU, each once, because system nodes would waste a GPU."""
        yield from types_without_gpu(self, at)


class CpuPool(NodeGroup):
    """Nodes for workers and for fleets without GPUs. Karpenter starts them when such pods exist and removes idle ones."""

    called: ClassVar[str] = "nodes for workers"
    name: ClassVar[str] = CPU_POOL_NAME

    instance_types: InstanceTypes = Field(
        description="a list like [m7i.xlarge, m6i.xlarge], of the same size: Karpenter takes the cheapest that there is"
    )
    max: GroupMax = Field(description="the largest number of nodes")
    disk_gib: Annotated[int, between(20, 16384, "GiB")] = Field(description="the root volume in GiB, like 50")

    @rule
    def _types_are_usable(self, at: Place) -> Iterator[Problem]:
        """Require known types without a GPU, each once."""
        yield from types_without_gpu(self, at)

    @rule
    def _types_are_of_a_size(self, at: Place) -> Iterator[Problem]:
        """Require types with the same number of vCPUs, because `max` counts nodes of one size."""
        first = self.types[0] if self.types else None
        for found in self.types[1:]:
            if first is not None and found.vcpus != first.vcpus:
                yield at.problem(
                    "instanceTypes",
                    f"{first.name} has {first.vcpus} vCPUs and {found.name} {found.vcpus}, so that max would be no number "
                    "of nodes; give types of the same size",
                )


class Nodes(Section):
    """Node groups without GPUs, and the component that starts and stops nodes."""

    guide: ClassVar[str] = "docs/autoscaling.md#nodes"

    system: SystemGroup = Field(description="the node group of cluster services")
    cpu: CpuPool | None = Field(
        default=None,
        description="nodes for the workers and for fleets without GPUs, which Karpenter starts and ends; without it: "
        "workers run on system nodes",
    )
    autoscaler: NodeAutoscaler | None = Field(
        default=None,
        description="who changes the number of nodes; without it: karpenter where Triton's pods are scaled, else none, and "
        "`desired` stays the number of nodes",
    )

    @property
    def groups(self) -> list[SystemGroup | CpuPool]:
        """Return the configured groups."""
        return [self.system, *([self.cpu] if self.cpu is not None else [])]

    @property
    def instance_types(self) -> tuple[str, ...]:
        """Return the types of all groups, each once."""
        return tuple(dict.fromkeys(name for group in self.groups for name in group.instance_types))
