"""Labels, taint, resources and autoscaler tags of a GPU pool must agree."""

from dataclasses import replace
from typing import Any

import pytest

from spec import gpu_pool
from spec.catalog import INSTANCE_TYPES
from spec.gpu_pool import GPU_TAINT, Taint, advertised, gpu_resource, gpu_toleration, labels, sharing_config, template_tags
from spec.settings import GpuPool, Sharing
from tests.spec.stack_config import settings

EXCLUSIVE = Sharing(strategy="exclusive", replicas=1)
TIME_SLICED = Sharing(strategy="time-slicing", replicas=4)
MPS = Sharing(strategy="mps", replicas=3)


def _pool(instance_types: list[str], sharing: dict[str, Any] | None = None) -> GpuPool:
    changes: dict[str, Any] = {"gpu.pools[1].name": "pool", "gpu.pools[1].instanceTypes": instance_types}
    if sharing is not None:
        changes["gpu.pools[1].sharing"] = sharing
    return settings(changes).gpu.pools[1]


def test_nodes_of_whole_gpus_are_labelled_for_plugin_and_autoscaler() -> None:
    assert labels(_pool(["g5.xlarge"])) == {
        "triton-eks/pool": "pool",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/device-plugin.config": "exclusive",
        "k8s.amazonaws.com/accelerator": "nvidia-a10g",
    }


@pytest.mark.parametrize(
    ("instance_type", "accelerator"),
    [
        ("g4dn.xlarge", "nvidia-t4"),
        ("g6.xlarge", "nvidia-l4"),
        ("p4d.24xlarge", "nvidia-a100"),
        ("p5.48xlarge", "nvidia-h100"),
    ],
)
def test_the_accelerator_is_named_after_the_gpu(instance_type: str, accelerator: str) -> None:
    assert labels(_pool([instance_type]))["k8s.amazonaws.com/accelerator"] == accelerator


def test_nodes_of_shared_gpus_are_not_expected_to_advertise_whole_ones() -> None:
    """The autoscaler treats a node with the accelerator label as unready while it has no `nvidia.com/gpu`."""
    assert labels(_pool(["g4dn.xlarge"], {"strategy": "time-slicing", "replicas": 4})) == {
        "triton-eks/pool": "pool",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/device-plugin.config": "ts4",
    }


@pytest.mark.parametrize(("sharing", "name"), [(EXCLUSIVE, "exclusive"), (TIME_SLICED, "ts4"), (MPS, "mps3")])
def test_each_way_of_sharing_has_a_configuration_of_its_own(sharing: Sharing, name: str) -> None:
    assert sharing_config(sharing) == name


@pytest.mark.parametrize(
    ("sharing", "resource"),
    [(EXCLUSIVE, "nvidia.com/gpu"), (TIME_SLICED, "nvidia.com/gpu.shared"), (MPS, "nvidia.com/gpu.shared")],
)
def test_a_shared_gpu_is_another_resource_than_a_whole_one(sharing: Sharing, resource: str) -> None:
    assert gpu_resource(sharing) == resource


def test_the_taint_is_the_one_that_node_feature_discovery_tolerates_by_default() -> None:
    """With another value its worker never lands on a GPU node, and GPUs stay 0: docs/facts/gpu-nodes.md#taint-and-labels."""
    assert (GPU_TAINT.key, GPU_TAINT.value, GPU_TAINT.effect) == ("nvidia.com/gpu", "present", "NoSchedule")


def test_the_toleration_is_for_exactly_that_taint() -> None:
    assert gpu_toleration() == {
        "key": "nvidia.com/gpu",
        "operator": "Equal",
        "value": "present",
        "effect": "NoSchedule",
    }


@pytest.mark.parametrize(
    ("effect", "spelt_by_eks"),
    [("NoSchedule", "NO_SCHEDULE"), ("NoExecute", "NO_EXECUTE"), ("PreferNoSchedule", "PREFER_NO_SCHEDULE")],
)
def test_eks_spells_effects_in_its_own_way(effect: str, spelt_by_eks: str) -> None:
    assert Taint("k", "v", effect).eks_effect == spelt_by_eks


def test_a_node_of_whole_gpus_advertises_each_of_them_and_the_disk_that_pods_get() -> None:
    # 8 x 1000 GB of instance store are 7450 GiB; the kubelet leaves nine tenths of them minus one.
    assert advertised(_pool(["p4d.24xlarge"])) == {"nvidia.com/gpu": "8", "ephemeral-storage": "6704Gi"}


def test_a_node_of_shared_gpus_advertises_shares_and_no_whole_gpu() -> None:
    """`0`, because the autoscaler would otherwise use the instance type's number of GPUs."""
    pool = _pool(["g4dn.12xlarge"], {"strategy": "mps", "replicas": 3})
    assert advertised(pool) == {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "12", "ephemeral-storage": "753Gi"}


def test_without_an_instance_store_pods_share_the_root_volume(monkeypatch: pytest.MonkeyPatch) -> None:
    diskless = replace(INSTANCE_TYPES["g5.xlarge"], nvme_gib=0)
    monkeypatch.setitem(INSTANCE_TYPES, "g5.xlarge", diskless)  # type: ignore[arg-type]
    pool = settings({"gpu.pools[0].diskGiB": 200}).gpu.pools[0]
    assert advertised(pool) == {"nvidia.com/gpu": "1", "ephemeral-storage": "179Gi"}


def test_a_pool_of_several_types_is_described_by_its_first() -> None:
    pool = _pool(["g5.2xlarge", "g5.xlarge"])
    assert gpu_pool.instance_type(pool).name == "g5.2xlarge"
    assert advertised(pool)["ephemeral-storage"] == f"{419 * 9 // 10 - 1}Gi"


def test_the_autoscaler_reads_labels_taints_and_resources_from_tags_of_these_names() -> None:
    assert template_tags({"a/b": "1"}, (Taint("k", "v", "NoExecute"),), {"nvidia.com/gpu": "4"}) == {
        "k8s.io/cluster-autoscaler/node-template/label/a/b": "1",
        "k8s.io/cluster-autoscaler/node-template/taint/k": "v:NoExecute",
        "k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu": "4",
    }


def test_the_tags_of_a_pool_agree_with_its_labels_its_taint_and_its_resources() -> None:
    pool = _pool(["g5.xlarge"])
    prefix = "k8s.io/cluster-autoscaler/node-template"
    assert template_tags(labels(pool), (GPU_TAINT,), advertised(pool)) == {
        f"{prefix}/label/triton-eks/pool": "pool",
        f"{prefix}/label/nvidia.com/gpu.present": "true",
        f"{prefix}/label/nvidia.com/device-plugin.config": "exclusive",
        f"{prefix}/label/k8s.amazonaws.com/accelerator": "nvidia-a10g",
        f"{prefix}/taint/nvidia.com/gpu": "present:NoSchedule",
        f"{prefix}/resources/nvidia.com/gpu": "1",
        f"{prefix}/resources/ephemeral-storage": "207Gi",
    }


def test_a_group_without_taints_and_resources_has_tags_for_its_labels_only() -> None:
    assert list(template_tags({"a": "1"}, (), {})) == ["k8s.io/cluster-autoscaler/node-template/label/a"]
