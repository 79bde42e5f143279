"""GPU node groups: `triton-eks:gpu`."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from spec.settings.fields import DnsLabel, Name, ReservationId, between, refuse
from spec.settings.nodes import GroupMax, GroupMin, InstanceTypes
from spec.settings.problem import describe
from spec.settings.section import Section


class Sharing(Section):
    """How the pods of a node share one GPU."""

    strategy: Literal["exclusive", "time-slicing", "mps", "mig"] = Field(description="time-slicing, mps or mig")
    replicas: Annotated[int, between(1, 48, "pods per GPU")] = Field(description="how many pods share one GPU, 2 to 48")
    profile: Name | None = Field(
        default=None,
        description="the profile of MIG, which cuts a GPU into instances with memory of their own, like 1g.10gb; "
        "required with strategy: mig, else forbidden",
    )


EXCLUSIVE = Sharing.model_construct(strategy="exclusive", replicas=1, profile=None)


def _sharing(value: Any) -> Any:
    """Return the mapping that `exclusive` is short for: one pod per GPU."""
    if value == "exclusive":
        return {"strategy": "exclusive", "replicas": 1}
    if not isinstance(value, dict):
        ways = "{strategy: time-slicing, replicas: 4} (or mps), or {strategy: mig, profile: 1g.10gb, replicas: 7}"
        refuse(f"{describe(value)}; use exclusive, {ways}")
    return value


class GpuPool(Section):
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
    efa: bool = Field(
        default=False,
        description="whether its nodes have EFA interfaces, the network between GPUs of several nodes, and start near one "
        "another",
    )


class Gpu(Section):
    """GPU node groups."""

    guide: ClassVar[str] = "docs/facts/gpu-nodes.md"

    pools: Annotated[tuple[GpuPool, ...], Field(min_length=1)] = Field(description="a list of GPU pools")
