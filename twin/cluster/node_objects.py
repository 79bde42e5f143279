"""Kubernetes Node objects from EKS node groups: what the machines of a group would register as."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spec import kubelet
from twin.cluster import device_plugin

NODE_GROUP_LABEL = "eks.amazonaws.com/nodegroup"
CLUSTER_ANNOTATION = "twin.triton-eks/cluster"
PROBLEM_ANNOTATION = "twin.triton-eks/gpu-problem"
APPLIED_ANNOTATION = "twin.triton-eks/applied"
"""The labels and taints that the node group gave the node, so that what somebody else added is told from them."""
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}


@dataclass(frozen=True)
class Machine:
    """An instance type, as EC2 describes it."""

    name: str
    vcpus: int
    memory_mib: int
    gpus: int = 0
    instance_store_gb: int = 0


@dataclass(frozen=True)
class NodeGroup:
    """An EKS node group. `zones` are those of its subnets. `disk_gib` is what pods may use as ephemeral storage.

    `mig`: profile and number of the instances that the boot cuts each GPU into.
    """

    cluster: str
    name: str
    desired: int
    machine: Machine
    zones: Sequence[str]
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    capacity_type: str = "ON_DEMAND"
    kubernetes_version: str = "1.35"
    disk_gib: int = 20
    mig: tuple[str, int] | None = None

    @property
    def node_taints(self) -> list[dict[str, str]]:
        """The taints as Kubernetes spells them."""
        return [
            {"key": t["key"], "effect": _EFFECTS[t["effect"]], **({"value": t["value"]} if t.get("value") else {})}
            for t in self.taints
        ]


def nodes(group: NodeGroup, plugin_values: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return the Node objects of a group, with status. Names depend on the group alone: a smaller one loses the last."""
    return [_node(group, index, plugin_values) for index in range(group.desired)]


def allocatable(machine: Machine, disk_gib: int) -> tuple[dict[str, str], dict[str, str]]:
    """Return capacity and allocatable of a machine, without GPUs."""
    pods = kubelet.max_pods(machine.vcpus)
    capacity = {
        "cpu": str(machine.vcpus),
        "memory": f"{machine.memory_mib}Mi",
        "ephemeral-storage": f"{disk_gib}Gi",
        "pods": str(pods),
    }
    offered = {
        **capacity,
        "cpu": f"{machine.vcpus * 1000 - kubelet.reserved_cpu_millis(machine.vcpus)}m",
        "memory": f"{machine.memory_mib - kubelet.reserved_memory_mib(pods)}Mi",
        "ephemeral-storage": f"{kubelet.disk_for_pods_gib(disk_gib)}Gi",
    }
    return capacity, offered


def node_name(group: NodeGroup, index: int) -> str:
    """Return a name that says where the node belongs; EKS would use the machine's private DNS name."""
    base = group.name if group.name.startswith(group.cluster) else f"{group.cluster}-{group.name}"
    safe = re.sub(r"[^a-z0-9-]+", "-", base.lower()).strip("-")
    if len(safe) > 50:
        safe = f"{safe[:41].rstrip('-')}-{hashlib.sha256(base.encode()).hexdigest()[:8]}"
    return f"{safe}-{index}"


def _node(group: NodeGroup, index: int, plugin_values: Mapping[str, Any] | None) -> dict[str, Any]:
    name = node_name(group, index)
    zone = group.zones[index % len(group.zones)]
    instance = "i-" + hashlib.sha256(f"{group.cluster}/{group.name}/{index}".encode()).hexdigest()[:17]
    labels = {
        **group.labels,
        "type": "kwok",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": group.machine.name,
        "topology.kubernetes.io/zone": zone,
        "topology.kubernetes.io/region": zone.rstrip("abcdefghijklmnopqrstuvwxyz"),
        NODE_GROUP_LABEL: group.name,
        "eks.amazonaws.com/capacityType": group.capacity_type,
    }
    taints = group.node_taints
    offer = device_plugin.advertised(plugin_values, labels, taints, group.machine.gpus, group.mig)
    capacity, offered = allocatable(group.machine, group.disk_gib)
    gpus = {resource: str(count) for resource, count in offer.resources.items()}
    applied = json.dumps({"labels": sorted(group.labels), "taints": taints}, sort_keys=True)
    annotations = {"kwok.x-k8s.io/node": "fake", CLUSTER_ANNOTATION: group.cluster, APPLIED_ANNOTATION: applied}
    if offer.problem:
        annotations[PROBLEM_ANNOTATION] = offer.problem
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"providerID": f"aws:///{zone}/{instance}", **({"taints": taints} if taints else {})},
        "status": {
            "capacity": capacity | gpus,
            "allocatable": offered | gpus,
            # The agent answers for the kubelet, on loopback; a VPC address would send `kubectl logs` off this machine.
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}],
            "nodeInfo": {
                "kubeletVersion": f"v{group.kubernetes_version}.0",
                "kubeProxyVersion": "",
                "osImage": "Amazon Linux 2023 (simulated)",
                "operatingSystem": "linux",
                "architecture": "amd64",
                "containerRuntimeVersion": "twin://",
                "kernelVersion": "",
                "machineID": "",
                "systemUUID": "",
                "bootID": "",
            },
        },
    }
