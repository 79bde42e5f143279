"""Pools in Karpenter's terms: an EC2NodeClass (how an instance starts) and a NodePool (instance types and disruption).

GPU pools use the same settings as the managed node groups, with the same labels, taint, disk and metadata service.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import yaml

from infra.aws.cluster_access import ClusterAccess
from infra.aws.launch import MODEL_CACHE_SCRIPT, mime_archive, node_config
from spec import cpu_pool, gpu_pool
from spec.catalog import max_pods
from spec.cpu_pool import CPU_TAINT
from spec.gpu_pool import GPU_RESOURCE, GPU_TAINT, Taint
from spec.settings.gpu import GpuPool
from spec.settings.nodes import CpuPool

KEEP_EMPTY = "15m"
"""How long an empty node waits for the next pod. Its start took minutes, and the next peak may be near."""
_KEEP_EMPTY_CPU = "5m"
"""The same for nodes without GPUs, which start in a minute or two."""
_EXPIRE_AFTER = "Never"
"""Expiry by age ignores disruption budgets, so nodes that started together would be removed together. Patches come with a
newer AMI release (`spec.versions`), for which nodes are replaced one at a time."""
_EVICT_AFTER = "1h"
"""How long a node that is to be removed waits for its pods' disruption budgets."""
_DISK_THROUGHPUT_MIBS = 125

_CAPACITY_TYPES: Mapping[str, tuple[str, ...]] = {
    "capacity-block": ("reserved",),
    "reservation": ("reserved", "spot", "on-demand"),
    "spot": ("spot", "on-demand"),
    "on-demand": ("on-demand",),
}
"""The start in the order reserved, spot, on-demand; Karpenter uses the first available. A capacity block has no fallback."""


def node_class_spec(pool: GpuPool | CpuPool, cluster: ClusterAccess, instance_profile: pulumi.Input[str]) -> dict[str, Any]:
    """Return the spec of the pool's EC2NodeClass."""
    types = pool.types
    confined, reservation = (pool.zones, pool.reservation_id) if isinstance(pool, GpuPool) else (None, None)
    zones = confined or sorted(cluster.node_subnet_ids)
    spec: dict[str, Any] = {
        # For a GPU type Karpenter uses the release's image with the NVIDIA driver, for others the standard image.
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
        # One hop: only the node itself. A pod with access to the metadata service would have the node's role.
        "metadataOptions": {"httpEndpoint": "enabled", "httpTokens": "required", "httpPutResponseHopLimit": 1},
        "tags": {
            **cluster.stack.named(f"{cluster.stack.cluster_name}-{pool.name}"),
            # The EBS driver may attach volumes only to instances with this tag (docs/facts/eks.md#volumes-of-one-cluster).
            "ebs.csi.aws.com/cluster-name": cluster.known_name,
        },
    }
    if all(known.nvme_gib > 0 for known in types):
        spec["instanceStorePolicy"] = "RAID0"
    if isinstance(pool, GpuPool):
        config = node_config({}, parallel_image_pull=pool.image_pull == "soci")
        # Karpenter adds its own NodeConfig, and nodeadm merges both.
        if pool.model_cache_gib is not None:
            spec["userData"] = mime_archive(config, [MODEL_CACHE_SCRIPT])
        elif pool.image_pull == "soci":
            spec["userData"] = yaml.safe_dump(config, sort_keys=True)
    if reservation is not None:
        spec["capacityReservationSelectorTerms"] = [{"id": reservation}]
    return spec


def node_pool_spec(pool: GpuPool, *, packed: bool = False) -> dict[str, Any]:
    """Return the spec of a GPU pool's NodePool. `packed`: one node holds several Triton pods."""
    return {
        "template": _template(pool, gpu_pool.labels(pool), GPU_TAINT, _CAPACITY_TYPES[pool.capacity]),
        "limits": {GPU_RESOURCE: str(pool.max * pool.types[0].gpus)},
        "disruption": {
            # A node for one pod stays, because moving the pod to a cheaper node costs a start and its warm caches. Nodes for
            # several pods are consolidated: a ReplicaSet removes pods from the fullest node first, so the others rarely
            # become empty. Pods move one at a time (their disruption budget).
            "consolidationPolicy": "WhenEmptyOrUnderutilized" if packed else "WhenEmpty",
            "consolidateAfter": KEEP_EMPTY,
            # For consolidated nodes, and for nodes whose pool or image has changed.
            "budgets": [{"nodes": "1"}],
        },
    }


def cpu_pool_spec(pool: CpuPool) -> dict[str, Any]:
    """Return the spec of the NodePool for nodes without GPUs.

    A node is also removed when its pods fit on other nodes: workers start in seconds and return unfinished messages. Of a
    fleet, one pod moves at a time (its disruption budget), and none if it may be the only pod.
    """
    return {
        "template": _template(pool, cpu_pool.LABELS, CPU_TAINT, ("on-demand",)),
        # The pool's types have the same number of vCPUs.
        "limits": {"cpu": str(pool.max * pool.types[0].vcpus)},
        "disruption": {
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
            "consolidateAfter": _KEEP_EMPTY_CPU,
            "budgets": [{"nodes": "1"}],
        },
    }


def _template(
    pool: GpuPool | CpuPool, labels: Mapping[str, str], taint: Taint, capacity_types: Sequence[str]
) -> dict[str, Any]:
    return {
        "metadata": {"labels": dict(labels)},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": pool.name},
            "requirements": [
                _one_of("node.kubernetes.io/instance-type", pool.instance_types),
                _one_of("karpenter.sh/capacity-type", capacity_types),
                _one_of("kubernetes.io/arch", ("amd64",)),
                _one_of("kubernetes.io/os", ("linux",)),
            ],
            "taints": [{"key": taint.key, "value": taint.value, "effect": taint.effect}],
            "expireAfter": _EXPIRE_AFTER,
            "terminationGracePeriod": _EVICT_AFTER,
        },
    }


def ami_alias(ami_release: str) -> str:
    """Return Karpenter's name of an AL2023 AMI release: `1.35.6-20260728` -> `al2023@v20260728`."""
    return f"al2023@v{ami_release.rpartition('-')[2]}"


def _one_of(key: str, values: Sequence[str]) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}
