"""Labels and taints that place Triton pods on the nodes of a group: a GPU pool, or `nodes.cpu`."""

from __future__ import annotations

from typing import Any

from spec import cpu_pool
from spec.gpu_pool import GPU_RESOURCE, POOL_LABEL, gpu_resource, gpu_toleration
from spec.settings.gpu import GpuPool
from spec.settings.nodes import CpuPool


def placement(group: GpuPool | CpuPool) -> dict[str, Any]:
    """Return the node selector and tolerations of a pod that runs only on these nodes."""
    if isinstance(group, CpuPool):
        return cpu_pool.placement()
    return {"nodeSelector": {POOL_LABEL: group.name}, "tolerations": [gpu_toleration()]}


def resource_of(group: GpuPool | CpuPool) -> str:
    """Return the extended resource of the group's GPUs. Without GPUs, return the resource of whole GPUs, of which pods
    request 0."""
    return gpu_resource(group.sharing) if isinstance(group, GpuPool) else GPU_RESOURCE
