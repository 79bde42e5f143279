"""First-fit decreasing placement of pods on equal nodes.

Pods that do not share a node come first, then the largest. Each goes onto the first node with room. The result never exceeds
the room, but it may miss a placement that a search would find. The scheduler places pods in order of arrival and searches no
better.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spec.catalog import InstanceType
from spec.pod_sets import NOTHING, Request
from spec.settings.scheduling.pods import Pods


@dataclass(frozen=True)
class Room:
    """The room on a node for pods, after the kubelet and the DaemonSets."""

    free: Request
    pods: int

    def holds(self, request: Request) -> bool:
        """Return whether CPU and memory are enough for one such pod."""
        return request.millis <= self.free.millis and request.mib <= self.free.mib

    def count(self, request: Request) -> int:
        """Return how many such pods fit."""
        pairs = ((self.free.millis, request.millis), (self.free.mib, request.mib), (self.pods, 1))
        return max(0, min(free // asked for free, asked in pairs if asked))


def room_of(types: Iterable[InstanceType], daemons: Sequence[Pods]) -> Room:
    """Return the room on a node of any of the types: the minimum of each resource.

    `daemons` are the DaemonSet pods, one of each on the node.
    """
    known, taken = list(types), NOTHING
    for one in daemons:
        taken = taken + one.request
    return Room(
        Request(
            min(one.allocatable_cpu_millis for one in known) - taken.millis,
            min(one.allocatable_mib for one in known) - taken.mib,
        ),
        min(one.max_pods for one in known) - len(daemons),
    )


def after_losing_a_zone(nodes: int, zones: int) -> int:
    """Return the nodes that remain after losing the zone with the most nodes. They are spread evenly."""
    return nodes - math.ceil(nodes / zones)


def without_room(pods: Sequence[Pods], nodes: int, room: Room) -> Counter[str]:
    """Return how many pods of each name find no room on this many nodes."""
    on_each = [room] * nodes
    left: Counter[str] = Counter()
    for one in sorted(pods, key=lambda one: (one.apart, _share(one.request, room), one.name), reverse=True):
        waiting = one.count
        # Equal pods fill one node after the other. If one finds no room, the next ones do not either.
        for index, here in enumerate(on_each):
            placed = min(waiting, here.count(one.request), 1 if one.apart else waiting)
            on_each[index] = Room(here.free + one.request * -placed, here.pods - placed)
            waiting -= placed
        if waiting:
            left[one.name] = waiting
    return left


def surge(pods: Iterable[Pods]) -> list[Pods]:
    """Return the room that updates need: the largest request of the pods that start before an old one stops.

    One pod is enough for any number of concurrent updates, because each new pod stops an old one and frees its room.
    """
    rolled = [one.request for one in pods if one.surges and one.count]
    if not rolled:
        return []
    largest = Request(max(one.millis for one in rolled), max(one.mib for one in rolled))
    return [Pods("one pod more for an update", largest, 1)]


def total(pods: Iterable[Pods]) -> Request:
    """Return the sum of the requests of all pods."""
    result = NOTHING
    for one in pods:
        result = result + one.request * one.count
    return result


def _share(request: Request, room: Room) -> float:
    return max(request.millis / max(1, room.free.millis), request.mib / max(1, room.free.mib))
