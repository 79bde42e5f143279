"""Nodes of instances that Karpenter launched."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest

from tests.twin.cluster.test_nodes import G5, FakeApi
from twin.cluster.instances import START_SECONDS, InstanceSimulator
from twin.cluster.kube_api import KubeApi
from twin.cluster.launched import InstanceReader
from twin.cluster.node_objects import LaunchedInstance, launched_node

UNREGISTERED = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}
GPU = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
INSTANCE = LaunchedInstance(
    id="i-1",
    name="ip-10-0-0-4",
    cluster="triton-local",
    zone="us-west-2a",
    machine=G5,
    at=0.0,
    labels={"karpenter.sh/nodepool": "g5", "nvidia.com/gpu.present": "true"},
    taints=(GPU, UNREGISTERED),
    max_pods=58,
    kubernetes_version="1.35",
    disk_gib=200,
)


class FakeInstances:
    """Fake InstanceReader."""

    def __init__(self, running: Sequence[LaunchedInstance], settled: bool = True) -> None:
        self._running, self._settled = running, settled

    def running(self) -> list[LaunchedInstance]:
        return list(self._running)

    def settled(self) -> bool:
        return self._settled


def simulate(api: FakeApi, *running: LaunchedInstance, settled: bool = True) -> None:
    instances = cast(InstanceReader, FakeInstances(running, settled))
    asyncio.run(InstanceSimulator(cast(KubeApi, api), instances, kubelet_port=10250).reconcile())


def test_a_node_is_what_the_user_data_of_its_instance_says() -> None:
    node = launched_node(INSTANCE, {})
    assert node["spec"] == {"providerID": "aws:///us-west-2a/i-1", "taints": [GPU, UNREGISTERED]}
    assert node["metadata"]["labels"]["karpenter.sh/nodepool"] == "g5"
    assert node["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "g5.xlarge"
    assert node["status"]["allocatable"] == {
        "cpu": "3920m",
        "memory": "15391Mi",
        "ephemeral-storage": "179Gi",
        "pods": "58",
        "nvidia.com/gpu": "1",
    }


def test_its_gpus_come_with_the_device_plugin() -> None:
    assert "nvidia.com/gpu" not in launched_node(INSTANCE, None)["status"]["allocatable"]


def test_an_instance_joins_when_it_has_started_and_not_before() -> None:
    api = FakeApi()
    simulate(api, replace(INSTANCE, at=time.time() + 1 - START_SECONDS))
    assert api.names("nodes") == []
    simulate(api, INSTANCE)
    assert api.names("nodes") == ["ip-10-0-0-4"]
    simulate(api, INSTANCE)
    assert api.log == []


@pytest.mark.parametrize(("settled", "left"), [(True, []), (False, ["ip-10-0-0-4"])])
def test_the_node_of_an_instance_that_is_gone_goes_unless_aws_has_lost_its_memory(settled: bool, left: list[str]) -> None:
    api = FakeApi()
    simulate(api, INSTANCE)
    simulate(api, settled=settled)
    assert api.names("nodes") == left


def test_a_node_that_is_on_its_way_out_is_left_to_karpenter() -> None:
    api = FakeApi()
    simulate(api, INSTANCE)
    api.objects["/api/v1/nodes/ip-10-0-0-4"]["metadata"]["deletionTimestamp"] = "2026-11-23T12:00:00Z"
    simulate(api)
    assert api.names("nodes") == ["ip-10-0-0-4"]
