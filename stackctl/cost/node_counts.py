"""Count the running nodes of each group: minimum, expected and maximum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from spec.capacity import nodes_for, nodes_for_workers
from spec.settings import GpuPool, Settings
from spec.settings.fleets import Fleet
from stackctl.cost.throughput import measured_rates


@dataclass(frozen=True)
class Nodes:
    """Nodes of one group that run at the same time."""

    min: int
    expected: int
    max: int


def system_nodes(settings: Settings) -> Nodes:
    """Return the nodes of the system group.

    Only cluster-autoscaler changes their number; otherwise it is `desired`.
    """
    group = settings.nodes.system
    fewest = group.min if settings.node_autoscaler == "cluster-autoscaler" else group.desired
    return Nodes(fewest, group.desired, group.max)


def cpu_nodes(settings: Settings) -> Nodes:
    """Return the nodes for workers and for fleets without GPUs.

    They hold the minimum number of workers. The expected number is at least one, because there is one while there is
    work.
    """
    group, worker = settings.nodes.cpu, settings.worker
    if group is None:
        return Nodes(0, 0, 0)
    pods = {fleet.release: expected_pods(fleet.stack, shares(settings, fleet)) for fleet in settings.each_fleet}
    workers = worker.fewest if worker is not None else 0
    fewest, expected = (
        nodes_for_workers(settings, workers, {release: count[index] for release, count in pods.items()}) for index in (0, 1)
    )
    return Nodes(min(fewest, group.max), min(max(expected, 1), group.max), group.max)


def pool_nodes(settings: Settings, pool: GpuPool) -> Nodes:
    """Return the nodes of a GPU pool: the number for Triton's pods, or `desired`.

    `desired` is for pools without Triton's pods.
    """
    fewest = pool.min if settings.node_autoscaler != "none" else pool.desired
    wanted = max(fewest, pool.desired)
    here = [fleet for fleet in settings.each_fleet if fleet.stack.triton.pool == pool.name]
    if here and settings.node_autoscaler != "none":
        filled = [
            [nodes_for(fleet.stack, pool, pods) for pods in expected_pods(fleet.stack, shares(settings, fleet))]
            for fleet in here
        ]
        at_least, expected = (sum(counts) for counts in zip(*filled, strict=True))
        fewest, wanted = max(fewest, at_least), max(fewest, expected)
    return Nodes(min(fewest, pool.max), min(wanted, pool.max), pool.max)


def fleet_nodes(settings: Settings, fleet: Fleet[Settings]) -> Nodes:
    """Return the nodes that a fleet's pods fill: minimum, expected and maximum.

    The maximum is for the maximum number of pods. Fleets share nodes without GPUs with workers; the count ignores that.
    """
    stack, group = fleet.stack, fleet.stack.triton_nodes
    least, expected = expected_pods(stack, shares(settings, fleet))
    most = stack.autoscaling.max_replicas if stack.autoscaling is not None else least
    filled = [nodes_for(stack, group, pods) for pods in (least, expected, max(most, expected))]
    return Nodes(*(min(count, group.max) for count in filled))


def shares(settings: Settings, fleet: Fleet[Settings]) -> dict[str, float]:
    """Return the fleet's share of each model's requests. Other fleets may have the rest."""
    totals = {
        model: sum(other.weight(model) for other in settings.each_fleet if other.serves(model))
        for model in fleet.stack.models.serving
    }
    return {model: fleet.weight(model) / total if total else 0 for model, total in totals.items()}


def expected_pods(settings: Settings, shares: Mapping[str, float]) -> tuple[int, int]:
    """Return the minimum and the expected pods of a fleet, including warm pods.

    Warm pods keep nodes ready. The expected number is for the models' expected rates, of which the fleet has its
    `shares`. It needs measured throughput (`modelctl tune`); the measured model that needs most pods counts. Without a
    measurement it is the minimum, and at least one pod, because one runs while there is work.
    """
    bounds = settings.autoscaling
    warm = bounds.warm_pods if bounds is not None else 0
    fewest = settings.fewest_pods
    most = bounds.max_replicas if bounds is not None else fewest
    rates = measured_rates(settings)
    wanted = [
        math.ceil(settings.models.serving[model].expected_rate * shares.get(model, 1) / rate)
        for model, rate in rates.items()
    ]
    return fewest + warm, min(max([fewest, 1, *wanted]), most) + warm
