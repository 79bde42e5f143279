"""Node groups without GPUs, and the autoscaler of nodes: `triton-eks:nodes`."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from spec.settings.fields import Name, between
from spec.settings.section import Section

SYSTEM_GROUP_NAME = "system"
"""The name of the system group among node groups: in names, tags and node labels."""

NodeAutoscaler = Literal["none", "karpenter", "cluster-autoscaler"]
GroupMin = Annotated[int, between(0, 450, "nodes")]
GroupMax = Annotated[int, between(1, 450, "nodes")]
InstanceTypes = Annotated[tuple[Name, ...], Field(min_length=1)]


class SystemGroup(Section):
    """The node group of cluster services: no GPU, no taint."""

    instance_types: InstanceTypes = Field(description="a list like [m7i.large]")
    min: GroupMin = Field(description="the smallest number of nodes")
    desired: GroupMin = Field(description="the number of nodes")
    max: GroupMax = Field(description="the largest number of nodes")
    disk_gib: Annotated[int, between(20, 16384, "GiB")] = Field(description="the root volume in GiB, like 50")


class Nodes(Section):
    """Node groups without GPUs, and who starts and stops nodes."""

    guide: ClassVar[str] = "docs/autoscaling.md"

    system: SystemGroup = Field(description="the node group of cluster services")
    autoscaler: NodeAutoscaler | None = Field(
        default=None,
        description="who changes the number of nodes; without it: karpenter where Triton's pods are scaled, else none, and "
        "`desired` stays the number of nodes",
    )
