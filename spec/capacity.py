"""Triton's pods and nodes: how many pods a node holds, and how many nodes pods fill."""

from __future__ import annotations

import math

from spec.gpu_pool import instance_type
from spec.settings import GpuPool, Settings
from spec.settings.relations import triton


def pods_per_node(settings: Settings, pool: GpuPool) -> int:
    """Return the pods of Triton that a node of the pool has room for, one at least."""
    return max(1, triton.pods_per_node(settings, pool, instance_type(pool)))


def nodes_for(settings: Settings, pool: GpuPool, pods: int) -> int:
    """Return the nodes of the pool that so many of Triton's pods fill."""
    return math.ceil(pods / pods_per_node(settings, pool))
