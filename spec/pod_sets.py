"""CPU and memory that pods ask for, by which the scheduler gives them their nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Where = Literal["system nodes", "every node", "GPU nodes"]
REPLICAS_OF_MONITORING = "monitoring.replicas"
"""In place of a path in the chart's values: the number is that of the stack file."""


@dataclass(frozen=True)
class Request:
    """Thousandths of a vCPU, and MiB."""

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

    `request`: of each pod, or where the chart's values have it. `count`: how many, or where the values have it; of a
    DaemonSet one on each node. `beside`: what other containers of the pod ask for. `surges`: an update starts a new pod
    before it ends an old one. `apart`: two of them never share a node.
    """

    name: str
    request: Request | str
    where: Where = "system nodes"
    count: int | str = 1
    beside: Request = NOTHING
    surges: bool = True
    apart: bool = False
