"""GPU pools as Karpenter knows them: an EC2NodeClass (how an instance starts) and a NodePool (which ones, and when they go).

From the same settings as the managed node groups, with the same labels, taint, disk and metadata service.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import yaml

from infra.aws.cluster_access import ClusterAccess
from infra.aws.launch import node_config
from spec import gpu_pool
from spec.catalog import max_pods
from spec.gpu_pool import GPU_RESOURCE, GPU_TAINT
from spec.settings.gpu import GpuPool

KEEP_EMPTY = "15m"
"""How long a node without pods waits for the next one: its start took minutes, and the next peak may be near."""
_EXPIRE_AFTER = "Never"
"""Age asks no disruption budget: nodes that were started together would all go together. Patches come with a newer AMI
release (`spec.versions`), for which nodes are replaced one at a time."""
_EVICT_AFTER = "1h"
"""A node that has to go waits so long for the disruption budgets of its pods."""
_DISK_THROUGHPUT_MIBS = 125

_CAPACITY_TYPES: Mapping[str, tuple[str, ...]] = {
    "capacity-block": ("reserved",),
    "reservation": ("reserved", "spot", "on-demand"),
    "spot": ("spot", "on-demand"),
    "on-demand": ("on-demand",),
}
"""Where the chain reserved, spot, on-demand begins: Karpenter takes the first that there is. A block is for itself alone."""


def node_class_spec(pool: GpuPool, cluster: ClusterAccess, instance_profile: pulumi.Input[str]) -> dict[str, Any]:
    """Return the spec of the pool's EC2NodeClass."""
    types = pool.types
    zones = pool.zones or sorted(cluster.node_subnet_ids)
    spec: dict[str, Any] = {
        # Of a GPU type, Karpenter takes the release's image with the NVIDIA driver.
        "amiSelectorTerms": [{"alias": ami_alias(cluster.pins.ami_release)}],
        "instanceProfile": instance_profile,
        "subnetSelectorTerms": [{"id": cluster.node_subnet_ids[zone]} for zone in zones],
        "securityGroupSelectorTerms": [{"id": cluster.security_group_id}],
        "kubelet": {"maxPods": max_pods(types)},
        "blockDeviceMappings": [
            {
                "deviceName": "/dev/xvda",
                "rootVolume": True,
                "ebs": {
                    "volumeType": "gp3",
                    "volumeSize": f"{pool.disk_gib}Gi",
                    "throughput": _DISK_THROUGHPUT_MIBS,
                    "encrypted": True,
                    "deleteOnTermination": True,
                },
            }
        ],
        # One hop: the node itself. A pod that reached the metadata service would have the node's role.
        "metadataOptions": {"httpEndpoint": "enabled", "httpTokens": "required", "httpPutResponseHopLimit": 1},
        "tags": cluster.stack.named(f"{cluster.stack.cluster_name}-{pool.name}"),
    }
    if all(known.nvme_gib > 0 for known in types):
        spec["instanceStorePolicy"] = "RAID0"
    if pool.image_pull == "soci":
        # Karpenter puts its own NodeConfig beside this one, and nodeadm merges them.
        spec["userData"] = yaml.safe_dump(node_config({}, parallel_image_pull=True), sort_keys=True)
    if pool.reservation_id is not None:
        spec["capacityReservationSelectorTerms"] = [{"id": pool.reservation_id}]
    return spec


def node_pool_spec(pool: GpuPool) -> dict[str, Any]:
    """Return the spec of the pool's NodePool."""
    gpus = pool.types[0].gpus
    return {
        "template": {
            "metadata": {"labels": gpu_pool.labels(pool)},
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": pool.name},
                "requirements": [
                    _one_of("node.kubernetes.io/instance-type", pool.instance_types),
                    _one_of("karpenter.sh/capacity-type", _CAPACITY_TYPES[pool.capacity]),
                    _one_of("kubernetes.io/arch", ("amd64",)),
                    _one_of("kubernetes.io/os", ("linux",)),
                ],
                "taints": [{"key": GPU_TAINT.key, "value": GPU_TAINT.value, "effect": GPU_TAINT.effect}],
                "expireAfter": _EXPIRE_AFTER,
                "terminationGracePeriod": _EVICT_AFTER,
            },
        },
        "limits": {GPU_RESOURCE: str(pool.max * gpus)},
        "disruption": {
            # A node with a pod on it stays: moving the pod to a cheaper node costs a start, and its warm caches.
            "consolidationPolicy": "WhenEmpty",
            "consolidateAfter": KEEP_EMPTY,
            # For empty nodes and for those whose pool or image has changed.
            "budgets": [{"nodes": "1"}],
        },
    }


def ami_alias(ami_release: str) -> str:
    """Return the release of the AL2023 images as Karpenter calls it: `1.35.6-20260728` -> `al2023@v20260728`."""
    return f"al2023@v{ami_release.rpartition('-')[2]}"


def _one_of(key: str, values: Sequence[str]) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}
