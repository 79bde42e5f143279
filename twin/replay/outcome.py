"""Figures of a replay: late and lost requests, running nodes and their cost, and how often the pods changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

_HOUR = 3600


@dataclass(frozen=True)
class Moment:
    """Means of a section of the trace that ends `at`: requests/s, pods, and the share of requests that missed the SLO."""

    at: int
    rate: float
    wanted: float
    ready: float
    missed: float


@dataclass
class Outcome:
    """The outcome of one fleet. `late`: answered after the SLO.

    `rejected`: requests that waited longer than the queue's timeout, or found no pod.
    `shortages`: the length in seconds of each period in which the load exceeded the capacity of the ready pods.
    """

    seconds: int = 0
    requests: float = 0.0
    late: float = 0.0
    rejected: float = 0.0
    node_seconds: int = 0
    pod_seconds: int = 0
    most_pods: int = 0
    crowded_seconds: int = 0
    """Seconds in which requests took more than 85 % of the ready pods' capacity."""
    gpus_per_node: int = 0
    usd_per_hour: float | None = None
    wanted: list[tuple[int, int]] = field(default_factory=list)
    """The desired pods from a second on; the first at 0."""
    shortages: list[int] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)

    @property
    def missed_share(self) -> float:
        """Return the share of the requests that were not answered within the SLO."""
        return (self.late + self.rejected) / self.requests if self.requests else 0.0

    @property
    def gpu_hours(self) -> float:
        """Return the GPU-hours of the nodes that ran, used or not."""
        return self.node_seconds * self.gpus_per_node / _HOUR

    @property
    def node_hours(self) -> float:
        """Return the node-hours."""
        return self.node_seconds / _HOUR

    @property
    def usd(self) -> float | None:
        """Return the cost of the nodes; None if the price is unknown."""
        return None if self.usd_per_hour is None else self.node_hours * self.usd_per_hour

    @property
    def turns(self) -> int:
        """Return how often the desired number of pods changed direction."""
        steps = [after > before for (_, before), (_, after) in pairwise(self.wanted)]
        return sum(one != other for one, other in pairwise(steps))

    @property
    def longest_shortage(self) -> int:
        """Return the seconds of the longest shortage."""
        return max(self.shortages, default=0)


def document(outcome: Outcome) -> dict[str, object]:
    """Return the JSON form, for `--json`."""
    return {
        "seconds": outcome.seconds,
        "requests": round(outcome.requests),
        "missedShare": round(outcome.missed_share, 6),
        "late": round(outcome.late),
        "rejected": round(outcome.rejected),
        "gpuHours": round(outcome.gpu_hours, 3),
        "nodeHours": round(outcome.node_hours, 3),
        "usd": None if outcome.usd is None else round(outcome.usd, 2),
        "podHours": round(outcome.pod_seconds / _HOUR, 3),
        "mostPods": outcome.most_pods,
        "changes": len(outcome.wanted) - 1,
        "turns": outcome.turns,
        "crowdedSeconds": outcome.crowded_seconds,
        "shortages": len(outcome.shortages),
        "longestShortageSeconds": outcome.longest_shortage,
        "shortageSeconds": sum(outcome.shortages),
        "wanted": [{"second": second, "pods": pods} for second, pods in outcome.wanted],
    }
