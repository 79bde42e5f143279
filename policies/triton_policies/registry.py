"""All policies of the pack."""

from __future__ import annotations

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

AREAS: dict[str, tuple[Policy, ...]] = {
    "Cluster": cluster.POLICIES,
    "Nodes": nodes.POLICIES,
    "GPU nodes": gpu_nodes.POLICIES,
    "Network": network.POLICIES,
    "Identity": identity.POLICIES,
    "Encryption and logs": encryption.POLICIES,
    "Buckets and images": storage.POLICIES,
    "Queues and alarms": queues.POLICIES,
    "Pods": workloads.POLICIES,
    "Serving": serving.POLICIES,
    "Platform": platform.POLICIES,
    "Ownership and cost": governance.POLICIES,
}
"""Area -> its policies, in the order of docs/policies.md."""

POLICIES: tuple[Policy, ...] = tuple(policy for policies in AREAS.values() for policy in policies)
