"""The resources that a node's kubelet reserves, as configured by the EKS AL2023 node bootstrap."""

from __future__ import annotations

import math

_EVICTION_MIB = 100


def max_pods(vcpus: int) -> int:
    """Return the maximum pods per node of a managed node group, with prefix delegation."""
    return 110 if vcpus < 30 else 250


def reserved_memory_mib(pods: int) -> int:
    """Return the MiB that a node for this many pods reserves: 255, 11 per pod, and the eviction threshold of 100."""
    return 255 + 11 * pods + _EVICTION_MIB


def reserved_cpu_millis(vcpus: int) -> int:
    """Return the reserved thousandths of a vCPU: 6 % of the first core, 1 % of the second, 0.5 % of two more, 0.25 % of the
    rest."""
    return math.ceil(sum([60, 10, 5, 5][:vcpus]) + 2.5 * max(0, vcpus - 4))


def disk_for_pods_gib(gib: int) -> int:
    """Return the GiB of a disk that pods can use: the kubelet evicts at 10 % free and reserves 1 GiB."""
    return max(0, gib * 9 // 10 - 1)
