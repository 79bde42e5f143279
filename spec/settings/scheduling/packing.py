"""Pods onto equal nodes, the largest first (those that refuse to share a node before them), each onto the first node with
room: first-fit decreasing.

That never finds room where there is none, and may miss a way to fit that a search would find; the scheduler, which takes
pods one by one as they come, searches no better.
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
    """The room of a node for pods, beside the kubelet and its DaemonSets."""

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
    """Return the room of a node that may be any of the types: as much of each resource as all of them have.

    `daemons`: the pods of DaemonSets, one of each on the node.
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
    """Return the nodes that are left when the zone with the most of them is lost; they are spread evenly."""
    return nodes - math.ceil(nodes / zones)


def without_room(pods: Sequence[Pods], nodes: int, room: Room) -> Counter[str]:
    """Return how many pods of each name find no room on so many nodes."""
    on_each = [room] * nodes
    left: Counter[str] = Counter()
    for one in sorted(pods, key=lambda one: (one.apart, _share(one.request, room), one.name), reverse=True):
        waiting = one.count
        # Equal pods fill one node after the other: where one of them finds no room, neither does the next.
        for index, here in enumerate(on_each):
            placed = min(waiting, here.count(one.request), 1 if one.apart else waiting)
            on_each[index] = Room(here.free + one.request * -placed, here.pods - placed)
            waiting -= placed
        if waiting:
            left[one.name] = waiting
    return left


def surge(pods: Iterable[Pods]) -> list[Pods]:
    """Return the room that updates need: of the largest of the pods that start before an old one ends.

    One is enough, however many Deployments change at a time: each that finds the place ends an old pod and leaves it.
    """
    rolled = [one.request for one in pods if one.surges and one.count]
    if not rolled:
        return []
    largest = Request(max(one.millis for one in rolled), max(one.mib for one in rolled))
    return [Pods("one pod more for an update", largest, 1)]


def total(pods: Iterable[Pods]) -> Request:
    """Return what all pods together ask for."""
    result = NOTHING
    for one in pods:
        result = result + one.request * one.count
    return result


def _share(request: Request, room: Room) -> float:
    return max(request.millis / max(1, room.free.millis), request.mib / max(1, room.free.mib))
