"""Pods and nodes: how many Triton pods fit on a node, and how many nodes the Triton pods and workers need.

`settings` is the view of the stack for one fleet (`Settings.each_fleet`), unless a function counts workers or says
otherwise.
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


def pods_per_node(settings: Settings, group: GpuPool | CpuPool) -> int:
    """Return how many Triton pods fit on a node of any type of the group; at least 1."""
    return max(1, min(triton.pods_per_node(settings, group, known) for known in group.types))


def packs_pods(settings: Settings, group: GpuPool | CpuPool) -> bool:
    """Return whether Karpenter fills the nodes of the group with several pods. `settings` is the whole stack.

    Nodes without GPUs hold workers too. A GPU pool is packed if its smallest node holds several pods of one of its fleets.
    A candidate does not count, because it must not change the pods that it is compared with.
    """
    if settings.node_autoscaler != "karpenter":
        return False
    if isinstance(group, CpuPool):
        return True
    here = [fleet for fleet in settings.each_fleet if fleet.stack.triton.pool == group.name and not fleet.candidate]
    return any(pods_per_node(fleet.stack, group) > 1 for fleet in here)


def nodes_for(settings: Settings, pool: GpuPool | CpuPool, pods: int) -> int:
    """Return how many nodes of the group this many Triton pods need."""
    return math.ceil(pods / pods_per_node(settings, pool))


def nodes_for_workers(settings: Settings, pods: int, fleets: Mapping[str, int] | None = None) -> int:
    """Return how many nodes of `nodes.cpu` this many workers need; 0 if the stack has no such nodes.

    `fleets` is the number of pods of fleets without GPUs on these nodes, by release (`triton-cpu`).
    """
    group = settings.nodes.cpu
    if group is None:
        return 0
    room = room_of(group.types, daemons(settings, gpu=False))
    wanted = [replace(one, count=pods) for one in workers(settings)]
    wanted += [replace(one, count=(fleets or {}).get(one.name, 0)) for one in fleets_without_gpus(settings)]
    most = sum(one.count for one in wanted)
    return next((count for count in range(most) if not without_room(wanted, count, room)), most)
