"""The resources that the kubelet of a node keeps for itself, as the EKS AL2023 node bootstrap configures it."""

from __future__ import annotations

import math

_EVICTION_MIB = 100


def max_pods(vcpus: int) -> int:
    """Return the pods that a managed node group lets a node have, with prefix delegation."""
    return 110 if vcpus < 30 else 250


def reserved_memory_mib(pods: int) -> int:
    """Return the MiB that a node for so many pods keeps: 255, 11 for each pod, and 100 below which it evicts."""
    return 255 + 11 * pods + _EVICTION_MIB


def reserved_cpu_millis(vcpus: int) -> int:
    """Return thousandths of a vCPU: 6 % of the first core, 1 % of the second, 0.5 % of two more, 0.25 % of the others."""
    return math.ceil(sum([60, 10, 5, 5][:vcpus]) + 2.5 * max(0, vcpus - 4))


def disk_for_pods_gib(gib: int) -> int:
    """Return the GiB of a disk that pods get: the kubelet evicts at 10 % and keeps 1 GiB for itself."""
    return max(0, gib * 9 // 10 - 1)
