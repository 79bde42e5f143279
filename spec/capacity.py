"""Pods and nodes: how many pods of Triton a node holds, and how many nodes pods of Triton and workers fill.

`settings` is the stack as one fleet has it (`Settings.each_fleet`), but for what counts workers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from spec.settings import GpuPool, Settings
from spec.settings.nodes import CpuPool
from spec.settings.relations import triton
from spec.settings.scheduling.packing import room_of, without_room
from spec.settings.scheduling.pods import daemons, fleets_without_gpus, workers
from spec.settings.serving import ModelServing


def pods_per_node(settings: Settings, group: GpuPool | CpuPool) -> int:
    """Return the pods of Triton that a node of the group has room for, one at least. The first type speaks for all."""
    return max(1, triton.pods_per_node(settings, group, group.types[0]))


def instances_per_pod(settings: Settings, model: str, wants: ModelServing) -> int:
    """Return the instances of a model in one pod: `instances` are per GPU on GPUs, unless it takes all of them by itself."""
    release = settings.models.release
    each = wants.device == "gpu" and (release is None or model not in release.self_placed)
    return wants.instances * (settings.triton.gpus if each else 1)


def nodes_for(settings: Settings, pool: GpuPool | CpuPool, pods: int) -> int:
    """Return the nodes of the group that so many of Triton's pods fill."""
    return math.ceil(pods / pods_per_node(settings, pool))


def nodes_for_workers(settings: Settings, pods: int, fleets: Mapping[str, int] | None = None) -> int:
    """Return the nodes of `nodes.cpu` that so many workers fill; 0 where the stack has no such nodes.

    `fleets`: by release (`triton-cpu`), pods of fleets without GPUs that are there too.
    """
    group = settings.nodes.cpu
    if group is None:
        return 0
    room = room_of(group.types, daemons(settings, gpu=False))
    wanted = [replace(one, count=pods) for one in workers(settings)]
    wanted += [replace(one, count=(fleets or {}).get(one.name, 0)) for one in fleets_without_gpus(settings)]
    most = sum(one.count for one in wanted)
    return next((count for count in range(most) if not without_room(wanted, count, room)), most)
