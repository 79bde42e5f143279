"""Find the cheapest fleets for groups of models with branch and bound.

A fleet is on one pool, and each group on one fleet. Fleets share no node, as in a stack file
(`spec.settings.relations.fleets`). The lower bound of a partial plan is the larger of two costs. One is the cost of its
nodes. The other is the cost of all groups if nodes could be rented by fractions, each unplaced group on its cheapest
pool. Neither falls when a group is added, so a partial plan is dropped if its bound is not below the best plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

MOST_PARTS = 200_000
"""Limit of evaluated partial plans, which take some seconds. Ten groups on three pools need fewer."""
_ROUNDING = 1e-9

Fits = Callable[[str, frozenset[str]], bool]
"""Returns whether a pod on a pool holds models together."""


@dataclass(frozen=True)
class Pool:
    """Nodes of one kind, with the monthly cost and the pods of one node."""

    name: str
    node_usd: float
    pods_per_node: int

    @property
    def pod_usd(self) -> float:
        """Return the cost of a pod if all nodes are full."""
        return self.node_usd / self.pods_per_node


@dataclass(frozen=True)
class Group:
    """Models that must share a fleet. `pods`: the unrounded number of busy pods, by pool that can serve them."""

    models: tuple[str, ...]
    pods: Mapping[str, float]


@dataclass(frozen=True)
class PlannedFleet:
    """A fleet on a pool, with its groups of models."""

    pool: Pool
    groups: tuple[Group, ...]

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(sorted(model for group in self.groups for model in group.models))

    @property
    def busy(self) -> float:
        """Return the unrounded number of pods that its models keep busy."""
        return sum(group.pods[self.pool.name] for group in self.groups)

    def replicas(self, fewest: int) -> int:
        return max(fewest, math.ceil(self.busy - _ROUNDING))

    def nodes(self, fewest: int) -> int:
        return math.ceil(self.replicas(fewest) / self.pool.pods_per_node)

    def usd(self, fewest: int) -> float:
        """Return the monthly cost of its nodes."""
        return self.nodes(fewest) * self.pool.node_usd


@dataclass(frozen=True)
class Found:
    """The best fleets. `bound`: the lower bound of the cost of all plans with each group on one fleet.

    `proven`: no such plan costs less than these fleets. The bound is the larger of two costs: all groups with fractions
    of nodes, each on its cheapest pool; or the most expensive group by itself.
    """

    fleets: tuple[PlannedFleet, ...]
    usd: float
    bound: float
    proven: bool


def cheapest(
    groups: Sequence[Group], pools: Sequence[Pool], fewest: int, fits: Fits, most_parts: int = MOST_PARTS
) -> Found | None:
    """Return the cheapest fleets with at least `fewest` pods each, or None.

    None means that some models fit no pod together. After `most_parts` partial plans, return the best fleets so far,
    unproven.
    """
    search = _Search(groups, pools, fewest, fits, most_parts)
    search.add(0, ())
    if search.best is None:
        return None
    return Found(search.best, search.usd, search.bound, search.parts <= most_parts)


class _Search:
    def __init__(self, groups: Sequence[Group], pools: Sequence[Pool], fewest: int, fits: Fits, most_parts: int) -> None:
        self._pools = {pool.name: pool for pool in pools}
        least = {id(group): min(self._usd(group, name) for name in group.pods) for group in groups}
        # The most expensive group first: its place matters most, and the bound rises early.
        self._groups = sorted(groups, key=lambda group: (-least[id(group)], group.models))
        self._rest = [sum(least[id(group)] for group in self._groups[index:]) for index in range(len(groups) + 1)]
        self._fewest = fewest
        self._fits = fits
        self._most_parts = most_parts
        alone = (min(PlannedFleet(self._pools[name], (group,)).usd(fewest) for name in group.pods) for group in groups)
        self.bound = max(self._rest[0], *alone)
        self.best: tuple[PlannedFleet, ...] | None = None
        self.usd = math.inf
        self.parts = 0

    def add(self, index: int, fleets: tuple[PlannedFleet, ...]) -> None:
        """Try every placement of the groups from `index` on."""
        self.parts += 1
        if self.parts > self._most_parts and self.best is not None:
            return
        usd = sum(fleet.usd(self._fewest) for fleet in fleets)
        fractions = sum(self._usd(group, fleet.pool.name) for fleet in fleets for group in fleet.groups)
        if max(usd, fractions + self._rest[index]) > self.usd - _ROUNDING:
            return
        if index == len(self._groups):
            self.best, self.usd = fleets, usd
            return
        for following in sorted(self._placed(self._groups[index], fleets), key=self._order):
            self.add(index + 1, following)

    def _placed(self, group: Group, fleets: tuple[PlannedFleet, ...]) -> list[tuple[PlannedFleet, ...]]:
        found = []
        for place, fleet in enumerate(fleets):
            if fleet.pool.name in group.pods:
                larger = PlannedFleet(fleet.pool, (*fleet.groups, group))
                if self._fits(fleet.pool.name, frozenset(larger.models)):
                    found.append((*fleets[:place], larger, *fleets[place + 1 :]))
        for name in group.pods:
            if self._fits(name, frozenset(group.models)):
                found.append((*fleets, PlannedFleet(self._pools[name], (group,))))
        return found

    def _order(self, fleets: tuple[PlannedFleet, ...]) -> tuple[float, int, float]:
        usd = sum(fleet.usd(self._fewest) for fleet in fleets)
        return usd, len(fleets), sum(fleet.busy * fleet.pool.pod_usd for fleet in fleets)

    def _usd(self, group: Group, pool: str) -> float:
        return group.pods[pool] * self._pools[pool].pod_usd
