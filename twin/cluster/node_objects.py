"""Build Kubernetes Node objects from EKS node groups and launched instances, as those machines would register."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spec import kubelet
from twin.cluster import device_plugin
from twin.cluster.device_plugin import Advertisement

NODE_GROUP_LABEL = "eks.amazonaws.com/nodegroup"
CLUSTER_ANNOTATION = "twin.triton-eks/cluster"
PROBLEM_ANNOTATION = "twin.triton-eks/gpu-problem"
APPLIED_ANNOTATION = "twin.triton-eks/applied"
"""The labels and taints that the node group gave the node, to tell them from labels and taints added by others."""
_UNREGISTERED = "karpenter.sh/unregistered"
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
    """An EKS node group. `zones`: the zones of its subnets; `disk_gib`: the ephemeral storage.

    `mig`: profile and number of the instances into which each GPU is partitioned at boot.
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
        """Return the taints in Kubernetes' notation."""
        return [
            {"key": t["key"], "effect": _EFFECTS[t["effect"]], **({"value": t["value"]} if t.get("value") else {})}
            for t in self.taints
        ]


def nodes(group: NodeGroup, plugin_values: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return the Node objects of a group, with status. Names depend only on the group: if it shrinks, the last nodes go."""
    return [_node(group, index, plugin_values) for index in range(group.desired)]


@dataclass(frozen=True)
class LaunchedInstance:
    """An instance that Karpenter launched, with the kubelet settings in its user data: labels, taints, number of pods.

    `at`: when it was launched, in seconds since 1970.
    """

    id: str
    name: str
    cluster: str
    zone: str
    machine: Machine
    at: float
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, str]]
    max_pods: int | None
    kubernetes_version: str
    disk_gib: int

    @property
    def provider_id(self) -> str:
        """Return the ID by which its Node names it."""
        return f"aws:///{self.zone}/{self.id}"


def allocatable(machine: Machine, disk_gib: int, max_pods: int | None = None) -> tuple[dict[str, str], dict[str, str]]:
    """Return capacity and allocatable of a machine, without GPUs. `max_pods`: the kubelet's setting, if any."""
    pods = max_pods or kubelet.max_pods(machine.vcpus)
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
    """Return a name that shows the node's group; EKS would use the machine's private DNS name."""
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
        **_own_labels(name, group.machine, zone),
        NODE_GROUP_LABEL: group.name,
        "eks.amazonaws.com/capacityType": group.capacity_type,
    }
    taints = group.node_taints
    offer = device_plugin.advertised(plugin_values, labels, taints, group.machine.gpus, group.mig)
    applied = json.dumps({"labels": sorted(group.labels), "taints": taints}, sort_keys=True)
    annotations = {"kwok.x-k8s.io/node": "fake", CLUSTER_ANNOTATION: group.cluster, APPLIED_ANNOTATION: applied}
    resources = allocatable(group.machine, group.disk_gib)
    version = group.kubernetes_version
    return _object(name, labels, annotations, taints, f"aws:///{zone}/{instance}", resources, offer, version)


def launched_node(instance: LaunchedInstance, plugin_values: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the Node object that the kubelet of an instance launched by Karpenter registers, with status."""
    labels = {**instance.labels, **_own_labels(instance.name, instance.machine, instance.zone)}
    # Karpenter removes this taint as soon as it knows the node, before a pod of the plugin could start.
    taints = [taint for taint in instance.taints if taint["key"] != _UNREGISTERED]
    offer = device_plugin.advertised(plugin_values, labels, taints, instance.machine.gpus)
    annotations = {"kwok.x-k8s.io/node": "fake", CLUSTER_ANNOTATION: instance.cluster}
    resources = allocatable(instance.machine, instance.disk_gib, instance.max_pods)
    version = instance.kubernetes_version
    return _object(instance.name, labels, annotations, instance.taints, instance.provider_id, resources, offer, version)


def lone_node(name: str, machine: Machine, zone: str, labels: Mapping[str, str], gpus: Mapping[str, int]) -> dict[str, Any]:
    """Return the Node object of a machine without a group or a pool. `gpus`: the number of GPUs, by resource."""
    annotations = {"kwok.x-k8s.io/node": "fake"}
    resources = allocatable(machine, disk_gib=1000)
    named = {**labels, **_own_labels(name, machine, zone)}
    provider_id = f"aws:///{zone}/i-{hashlib.sha256(name.encode()).hexdigest()[:17]}"
    return _object(name, named, annotations, (), provider_id, resources, Advertisement(gpus), "1.35")


def _own_labels(name: str, machine: Machine, zone: str) -> dict[str, str]:
    return {
        "type": "kwok",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": machine.name,
        "topology.kubernetes.io/zone": zone,
        "topology.kubernetes.io/region": zone.rstrip("abcdefghijklmnopqrstuvwxyz"),
    }


def _object(
    name: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    taints: Sequence[Mapping[str, str]],
    provider_id: str,
    resources: tuple[dict[str, str], dict[str, str]],
    offer: Advertisement,
    kubernetes_version: str,
) -> dict[str, Any]:
    capacity, offered = resources
    gpus = {resource: str(count) for resource, count in offer.resources.items()}
    problem = {PROBLEM_ANNOTATION: offer.problem} if offer.problem else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": dict(labels), "annotations": {**annotations, **problem}},
        "spec": {"providerID": provider_id, **({"taints": [*taints]} if taints else {})},
        "status": {
            "capacity": capacity | gpus,
            "allocatable": offered | gpus,
            # The agent answers for the kubelet, on loopback; a VPC address would send `kubectl logs` off this machine.
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}],
            "nodeInfo": {
                "kubeletVersion": f"v{kubernetes_version}.0",
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
