"""All policies of the pack."""

from __future__ import annotations

from types import ModuleType

from triton_policies import (
    cluster,
    encryption,
    governance,
    gpu_nodes,
    identity,
    network,
    nodes,
    platform,
    queues,
    serving,
    storage,
    workloads,
)
from triton_policies.policy import Policy

AREAS: dict[str, ModuleType] = {
    "Cluster": cluster,
    "Nodes": nodes,
    "GPU nodes": gpu_nodes,
    "Network": network,
    "Identity": identity,
    "Encryption and logs": encryption,
    "Buckets and images": storage,
    "Queues and alarms": queues,
    "Pods": workloads,
    "Serving": serving,
    "Platform": platform,
    "Ownership and cost": governance,
}
"""Area -> the module with its `POLICIES`, in the order of docs/policies.md."""

POLICIES: tuple[Policy, ...] = tuple(policy for area in AREAS.values() for policy in area.POLICIES)
