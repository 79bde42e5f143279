"""Pods and nodes: how many pods of Triton a node holds, and how many nodes pods of Triton and workers fill."""

from __future__ import annotations

import math

from spec.gpu_pool import instance_type
from spec.settings import GpuPool, Settings
from spec.settings.relations import triton
from spec.settings.scheduling.packing import room_of
from spec.settings.scheduling.pods import daemons, workers


def pods_per_node(settings: Settings, pool: GpuPool) -> int:
    """Return the pods of Triton that a node of the pool has room for, one at least."""
    return max(1, triton.pods_per_node(settings, pool, instance_type(pool)))


def nodes_for(settings: Settings, pool: GpuPool, pods: int) -> int:
    """Return the nodes of the pool that so many of Triton's pods fill."""
    return math.ceil(pods / pods_per_node(settings, pool))


def nodes_for_workers(settings: Settings, pods: int) -> int:
    """Return the nodes of `nodes.cpu` that so many workers fill; 0 where the stack has no such nodes."""
    group = settings.nodes.cpu
    if group is None:
        return 0
    room = room_of(group.types, daemons(settings, gpu=False))
    return sum(math.ceil(pods / max(1, room.count(worker.request))) for worker in workers(settings))
