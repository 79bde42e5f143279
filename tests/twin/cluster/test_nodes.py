import asyncio
import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from twin.cluster import node_objects
from twin.cluster.kube_api import KubeApi, Object
from twin.cluster.kube_errors import ApiError
from twin.cluster.node_groups import AwsReader
from twin.cluster.node_objects import Machine, NodeGroup, allocatable, node_name, nodes
from twin.cluster.nodes import NodeSimulator, changes, status_changes

G5 = Machine("g5.xlarge", vcpus=4, memory_mib=16384, gpus=1, instance_store_gb=250)
GROUP = NodeGroup(
    cluster="triton-local",
    name="g5",
    desired=3,
    machine=G5,
    zones=["us-west-2a", "us-west-2b"],
    labels={"nvidia.com/gpu.present": "true", "pool": "g5"},
    taints=[{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}],
    disk_gib=200,
)


def test_a_group_spreads_its_nodes_over_its_zones() -> None:
    labels = [node["metadata"]["labels"] for node in nodes(GROUP, {})]
    assert [entry["topology.kubernetes.io/zone"] for entry in labels] == ["us-west-2a", "us-west-2b", "us-west-2a"]
    assert {entry["topology.kubernetes.io/region"] for entry in labels} == {"us-west-2"}


def test_a_node_has_what_its_group_and_machine_have() -> None:
    node = nodes(GROUP, {})[0]
    assert node["metadata"]["name"] == "triton-local-g5-0"
    assert node["metadata"]["annotations"]["kwok.x-k8s.io/node"] == "fake"
    labels = node["metadata"]["labels"]
    assert labels["type"] == "kwok"
    assert labels["node.kubernetes.io/instance-type"] == "g5.xlarge"
    assert labels["eks.amazonaws.com/nodegroup"] == "g5"
    assert labels["pool"] == "g5"
    assert node["spec"]["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    assert node["status"]["capacity"] == {
        "cpu": "4",
        "memory": "16384Mi",
        "ephemeral-storage": "200Gi",
        "pods": "110",
        "nvidia.com/gpu": "1",
    }
    assert node["status"]["allocatable"] == {
        "cpu": "3920m",
        "memory": "14819Mi",
        "ephemeral-storage": "179Gi",
        "pods": "110",
        "nvidia.com/gpu": "1",
    }


def test_a_node_keeps_no_connection_away_from_this_machine() -> None:
    addresses = nodes(GROUP, {})[0]["status"]["addresses"]
    assert {"type": "InternalIP", "address": "127.0.0.1"} in addresses


def test_gpus_come_with_the_device_plugin_only_and_the_node_says_why_not() -> None:
    node = nodes(GROUP, None)[0]
    assert "nvidia.com/gpu" not in node["status"]["capacity"]
    assert node["metadata"]["annotations"][node_objects.PROBLEM_ANNOTATION] == "the NVIDIA device plugin is not installed"


@pytest.mark.parametrize(
    ("vcpus", "memory_mib", "cpu", "memory", "pods"),
    [
        (2, 8192, "1930m", "6627Mi", "110"),
        (4, 16384, "3920m", "14819Mi", "110"),
        (96, 1179648, "95690m", "1176543Mi", "250"),
    ],
)
def test_the_reserves_are_those_of_the_eks_images(vcpus: int, memory_mib: int, cpu: str, memory: str, pods: str) -> None:
    _, offered = allocatable(Machine("m", vcpus, memory_mib), 100)
    assert (offered["cpu"], offered["memory"], offered["pods"]) == (cpu, memory, pods)


def test_names_are_valid_and_differ_between_clusters_and_groups() -> None:
    long = replace(GROUP, name="g5-" + "x" * 80)
    names = [node_name(g, 0) for g in (GROUP, replace(GROUP, cluster="triton-dev"), replace(GROUP, name="G5_b"), long)]
    assert names[:3] == ["triton-local-g5-0", "triton-dev-g5-0", "triton-local-g5-b-0"]
    assert len(names[3]) <= 63
    assert node_name(replace(GROUP, name="triton-local-g5-1a2b"), 1) == "triton-local-g5-1a2b-1"


def as_stored(node: dict[str, Any]) -> dict[str, Any]:
    """Return a node as the API server returns it: canonical quantities, and other controllers' fields."""
    stored = copy.deepcopy(node)
    for kind in ("capacity", "allocatable"):
        if stored["status"][kind]["memory"] == "16384Mi":
            stored["status"][kind]["memory"] = "16Gi"
    stored["metadata"]["labels"]["added-by/somebody"] = "x"
    stored["metadata"]["annotations"]["node.alpha.kubernetes.io/ttl"] = "0"
    stored["spec"].setdefault("taints", []).append({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"})
    return stored


def test_a_node_that_is_as_it_should_be_is_left_alone() -> None:
    wanted = nodes(GROUP, {})[0]
    assert changes(as_stored(wanted), wanted) == {}
    assert status_changes(as_stored(wanted), wanted) == {}


def test_a_label_that_the_group_lost_goes_and_one_that_somebody_added_stays() -> None:
    present = as_stored(nodes(GROUP, {})[0])
    wanted = nodes(replace(GROUP, labels={"nvidia.com/gpu.present": "true", "tier": "a"}), {})[0]
    assert changes(present, wanted)["metadata"]["labels"] == {"tier": "a", "pool": None}


def test_taints_follow_the_group_and_the_node_controllers_own_stay() -> None:
    present = as_stored(nodes(GROUP, {})[0])
    wanted = nodes(replace(GROUP, taints=[{"key": "spot", "effect": "NO_EXECUTE"}]), {})[0]
    assert changes(present, wanted)["spec"]["taints"] == [
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        {"key": "spot", "effect": "NoExecute"},
    ]


def test_gpus_appear_and_go_with_the_device_plugin() -> None:
    with_plugin, without = nodes(GROUP, {})[0], nodes(GROUP, None)[0]
    assert status_changes(as_stored(without), with_plugin) == {
        "capacity": {"nvidia.com/gpu": "1"},
        "allocatable": {"nvidia.com/gpu": "1"},
    }
    assert status_changes(as_stored(with_plugin), without) == {
        "capacity": {"nvidia.com/gpu": None},
        "allocatable": {"nvidia.com/gpu": None},
    }


class FakeAws:
    """Fake AwsReader."""

    def __init__(self, groups: Sequence[NodeGroup], settled: bool = True) -> None:
        self.groups, self.is_settled = groups, settled

    def node_groups(self) -> list[NodeGroup]:
        return list(self.groups)

    def settled(self) -> bool:
        return self.is_settled


class FakeApi:
    """Fake KubeApi: objects by path. A budget blocks evictions while `budget_blocks`."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.budget_blocks = False
        self.log: list[str] = []

    async def get(self, path: str, **params: str) -> dict[str, Any]:
        items = [o for p, o in self.objects.items() if path.rpartition("/")[2] == p.split("/")[-2]]
        if "fieldSelector" in params:
            items = [o for o in items if o["spec"].get("nodeName") == params["fieldSelector"].partition("=")[2]]
        return {"items": copy.deepcopy(items)}

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path.endswith("/eviction"):
            self.log.append("evict")
            if self.budget_blocks:
                raise ApiError(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.")
            self.objects.pop(path.removesuffix("/eviction"))
        else:
            self.objects[f"{path}/{body['metadata']['name']}"] = copy.deepcopy(body)
        return body

    async def patch(self, path: str, body: dict[str, Any], kind: str = "") -> dict[str, Any]:
        self.log.append("cordon" if body.get("spec", {}).get("unschedulable") else "patch")
        target = self.objects[path.removesuffix("/status")]
        for part, content in body.items():
            for key, value in content.items():
                target[part][key] = {**target[part].get(key, {}), **value} if isinstance(value, dict) else value
        return target

    async def delete(self, path: str, body: dict[str, Any] | None = None) -> None:
        self.objects.pop(path, None)

    def names(self, kind: str) -> list[str]:
        return sorted(p.rpartition("/")[2] for p in self.objects if p.split("/")[-2] == kind)


def simulate(api: FakeApi, aws: FakeAws, rounds: int = 1) -> None:
    def runs(pod: Object) -> bool:
        return "tritonserver" in pod["spec"]["containers"][0]["image"]

    simulator = NodeSimulator(cast(KubeApi, api), cast(AwsReader, aws), kubelet_port=10250, runs_as_process=runs)

    async def run() -> None:
        for _ in range(rounds):
            await simulator.reconcile()

    asyncio.run(run())


def pod_on(api: FakeApi, node: str) -> None:
    api.objects["/api/v1/namespaces/triton/pods/t"] = {
        "metadata": {"name": "t", "namespace": "triton"},
        "spec": {"nodeName": node, "containers": [{"image": "nvcr.io/nvidia/tritonserver:1"}]},
    }


def test_nodes_are_made_for_a_group_and_a_second_round_changes_nothing() -> None:
    api = FakeApi()
    simulate(api, FakeAws([GROUP]), rounds=2)
    assert api.names("nodes") == ["triton-local-g5-0", "triton-local-g5-1", "triton-local-g5-2"]
    assert api.log == []


def test_a_smaller_group_is_drained_from_the_end_before_a_node_goes() -> None:
    api = FakeApi()
    simulate(api, FakeAws([GROUP]))
    pod_on(api, "triton-local-g5-2")
    simulate(api, FakeAws([replace(GROUP, desired=2)]))
    assert api.names("nodes") == ["triton-local-g5-0", "triton-local-g5-1", "triton-local-g5-2"]
    assert api.log == ["cordon", "evict"]
    simulate(api, FakeAws([replace(GROUP, desired=2)]))
    assert api.names("nodes") == ["triton-local-g5-0", "triton-local-g5-1"]


def test_a_node_waits_for_a_disruption_budget() -> None:
    api = FakeApi()
    simulate(api, FakeAws([GROUP]))
    pod_on(api, "triton-local-g5-2")
    api.budget_blocks = True
    simulate(api, FakeAws([replace(GROUP, desired=2)]), rounds=3)
    assert "triton-local-g5-2" in api.names("nodes")
    assert api.names("pods") == ["t"]


def test_a_node_that_is_wanted_again_is_uncordoned() -> None:
    api = FakeApi()
    simulate(api, FakeAws([GROUP]))
    pod_on(api, "triton-local-g5-2")
    api.budget_blocks = True
    simulate(api, FakeAws([replace(GROUP, desired=2)]))
    assert api.objects["/api/v1/nodes/triton-local-g5-2"]["spec"]["unschedulable"] is True
    simulate(api, FakeAws([GROUP]))
    assert api.objects["/api/v1/nodes/triton-local-g5-2"]["spec"]["unschedulable"] is None


def test_an_aws_that_has_lost_its_memory_drains_nothing() -> None:
    api = FakeApi()
    simulate(api, FakeAws([GROUP]))
    simulate(api, FakeAws([], settled=False))
    assert len(api.names("nodes")) == 3
    simulate(api, FakeAws([], settled=True))
    assert api.names("nodes") == []
