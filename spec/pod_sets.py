"""CPU and memory requests of pods, by which the scheduler chooses their nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Where = Literal["system nodes", "every node", "GPU nodes"]
REPLICAS_OF_MONITORING = "monitoring.replicas"
"""Used instead of a path in the chart's values: the stack file has the number."""


@dataclass(frozen=True)
class Request:
    """A request in thousandths of a vCPU and MiB."""

    millis: int = 0
    mib: int = 0

    def __add__(self, other: Request) -> Request:
        return Request(self.millis + other.millis, self.mib + other.mib)

    def __mul__(self, count: int) -> Request:
        return Request(self.millis * count, self.mib * count)

    def __str__(self) -> str:
        return f"{self.millis}m CPU and {self.mib} MiB"


NOTHING = Request()


@dataclass(frozen=True)
class PodSet:
    """The pods of one Deployment, StatefulSet or DaemonSet.

    `request` is the request of each pod, or its path in the chart's values. `count` is the number of pods, or its path in
    the values; a DaemonSet has one pod on each node. `beside` is the request of the pod's other containers. `surges`: an
    update starts a new pod before it stops an old one. `apart`: two of the pods never share a node.
    """

    name: str
    request: Request | str
    where: Where = "system nodes"
    count: int | str = 1
    beside: Request = NOTHING
    surges: bool = True
    apart: bool = False
