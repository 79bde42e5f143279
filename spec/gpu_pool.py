"""Values derived from a GPU pool's settings: labels, taint, pod resource and node template tags.

This is the one source for the node group, the device plugin, the autoscaler's template tags and the pods that tolerate the
taint. They work only if they agree (docs/facts/gpu-nodes.md#taint-and-labels).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spec.catalog import InstanceType
from spec.settings.gpu import GpuPool, Sharing

POOL_LABEL = "triton-eks/pool"
"""The node label with the name of the node's group."""
GPU_RESOURCE = "nvidia.com/gpu"
SHARED_GPU_RESOURCE = "nvidia.com/gpu.shared"
"""The resource name of shared GPUs. It differs, so a pod that needs a whole GPU never lands on a shared one."""

MIG_RESOURCE_PREFIX = "nvidia.com/mig-"
"""The resource name prefix of a MIG instance; the profile follows."""

_STRATEGY_PREFIX = {"time-slicing": "ts", "mps": "mps"}


@dataclass(frozen=True)
class Taint:
    """A node taint, with the effect as Kubernetes spells it."""

    key: str
    value: str
    effect: str

    @property
    def eks_effect(self) -> str:
        """Return the effect as the EKS API spells it."""
        return {"NoSchedule": "NO_SCHEDULE", "NoExecute": "NO_EXECUTE", "PreferNoSchedule": "PREFER_NO_SCHEDULE"}[
            self.effect
        ]


# The value is `present` because the node feature discovery worker tolerates that value by default.
GPU_TAINT = Taint(key="nvidia.com/gpu", value="present", effect="NoSchedule")


def gpu_toleration() -> dict[str, str]:
    """Return the toleration of `GPU_TAINT` for a pod."""
    return {
        "key": GPU_TAINT.key,
        "operator": "Equal",
        "value": GPU_TAINT.value,
        "effect": GPU_TAINT.effect,
    }


def sharing_config(sharing: Sharing) -> str:
    """Return the name of the device plugin's configuration: `exclusive`, `ts4`, `mps2`, `mig`."""
    if sharing.strategy in ("exclusive", "mig"):
        return sharing.strategy
    return f"{_STRATEGY_PREFIX[sharing.strategy]}{sharing.replicas}"


def gpu_resource(sharing: Sharing) -> str:
    """Return the extended resource that pods on the pool request."""
    if sharing.strategy == "mig":
        return f"{MIG_RESOURCE_PREFIX}{sharing.profile}"
    return GPU_RESOURCE if sharing.strategy == "exclusive" else SHARED_GPU_RESOURCE


def instance_type(pool: GpuPool) -> InstanceType:
    """Return the type that represents the pool's nodes: the first, as in the cluster autoscaler."""
    return pool.types[0]


def labels(pool: GpuPool) -> dict[str, str]:
    """Return the labels of the pool's nodes."""
    node_labels = {
        POOL_LABEL: pool.name,
        # Without it the device plugin's affinity matches no node, and `nvidia.com/gpu` stays 0 without an error.
        "nvidia.com/gpu.present": "true",
        "nvidia.com/device-plugin.config": sharing_config(pool.sharing),
    }
    if pool.sharing.strategy == "exclusive":
        # It tells the cluster autoscaler that a new node is not ready before it advertises `nvidia.com/gpu`. A node with
        # shared GPUs never does, so the autoscaler would treat it as broken forever (gpu_processor.go of the autoscaler).
        gpu_name = instance_type(pool).gpu_name or ""
        node_labels["k8s.amazonaws.com/accelerator"] = f"nvidia-{gpu_name.lower()}"
    return node_labels


def advertised(pool: GpuPool) -> dict[str, str]:
    """Return the node resources that the autoscaler cannot derive from the instance type."""
    hardware = instance_type(pool)
    resources = {
        gpu_resource(pool.sharing): str(hardware.gpus * pool.sharing.replicas),
        # The autoscaler treats it as allocatable. With the whole disk it would start nodes on which the pod does not fit.
        "ephemeral-storage": f"{hardware.allocatable_disk_gib(pool.disk_gib)}Gi",
    }
    if pool.sharing.strategy != "exclusive":
        # Otherwise the autoscaler expects a whole GPU, and starts a node for a pod that can never run there.
        resources[GPU_RESOURCE] = "0"
    return resources


def template_tags(node_labels: Mapping[str, str], taints: tuple[Taint, ...], resources: Mapping[str, str]) -> dict[str, str]:
    """Return Auto Scaling group tags that describe a node to cluster-autoscaler while the group is empty."""
    prefix = "k8s.io/cluster-autoscaler/node-template"
    return {
        **{f"{prefix}/label/{key}": value for key, value in node_labels.items()},
        **{f"{prefix}/taint/{taint.key}": f"{taint.value}:{taint.effect}" for taint in taints},
        **{f"{prefix}/resources/{name}": amount for name, amount in resources.items()},
    }
