"""A simulated fleet in steps of seconds: its queues and busy instances at a load, while new pods start.

The pod is the measured one: one instance, batches of up to 4 requests in 0.2 s, independent of their size. So it answers at
most 20 requests/s, and is always busy from 5/s on (docs/facts/triton-metrics.md#measured-pod). Each pod has its own queue,
and requests are spread evenly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from twin.replay.hpa import SYNC_SECONDS, TOLERANCE, Autoscaler

BATCH_SECONDS = 0.2
CAPACITY = 20.0
_RATE_WINDOW_SECONDS = 60

Asks = Callable[[float, float, int], int]


def by_value(total: float, target: float, current: int) -> int:
    """Return the pods for a sum used as a Value, which `spec.scaling.signal` makes impossible."""
    ratio = total / target
    return current if abs(1 - ratio) <= TOLERANCE else math.ceil(round(ratio * current, 9))


@dataclass
class Pod:
    ready_at: float
    waiting: float = 0.0
    busy: list[float] = field(default_factory=list)

    def second(self, arriving: float) -> None:
        answered = min(self.waiting + arriving, CAPACITY)
        self.waiting += arriving - answered
        self.busy.append(min(1.0, answered * BATCH_SECONDS))

    def busy_of_late(self) -> float:
        recent = self.busy[-_RATE_WINDOW_SECONDS:]
        return sum(recent) / len(recent) if recent else 0.0


@dataclass(frozen=True)
class Run:
    """The pods and the waiting requests at each look of the autoscaler."""

    pods: list[int]
    waiting: list[float]

    def turns(self, first: int = 0) -> int:
        """Return how often the number of pods changed direction, from one look on."""
        steps = [b - a for a, b in pairwise(self.pods[first:]) if a != b]
        return sum((a > 0) != (b > 0) for a, b in pairwise(steps))


def simulate(
    spec: Mapping[str, Any],
    load: Callable[[float], float],
    *,
    seconds: int,
    start_seconds: float,
    targets: Mapping[str, float],
    asks: Asks,
) -> Run:
    """Simulate a fleet under a load, with an autoscaler of this spec that reads both signals through `asks`."""
    autoscaler = Autoscaler(spec)
    fleet = [Pod(ready_at=0) for _ in range(spec["minReplicas"])]
    run = Run([], [])
    for now in range(seconds):
        ready = [pod for pod in fleet if pod.ready_at <= now]
        for pod in ready:
            pod.second(load(now) / len(ready))
        if now % SYNC_SECONDS:
            continue
        waiting = sum(pod.waiting for pod in ready)
        busy = sum(pod.busy_of_late() for pod in ready)
        proposals = [asks(waiting, targets["pending"], len(fleet)), asks(busy, targets["busy"], len(fleet))]
        wanted = autoscaler.decide(now, len(fleet), proposals)
        fleet = fleet[:wanted] + [Pod(ready_at=now + start_seconds) for _ in range(wanted - len(fleet))]
        run.pods.append(len(fleet))
        run.waiting.append(waiting)
    return run
