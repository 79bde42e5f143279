"""`make up KARPENTER=1`: the real Karpenter starts and terminates nodes of the program's pools, as its role allows."""

from __future__ import annotations

import pytest

from tests.system.e2e.karpenter_nodes import DEPLOYMENTS, TRITON, Nodes, instance_of
from tests.system.e2e.sockets import listening
from twin.host import processes

# Karpenter may have to be built first.
pytestmark = pytest.mark.timeout(5400)

GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
CAPACITY = "karpenter.sh/capacity-type"
NODE_CLASSES = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"


def test_the_platform_came_up_on_nodes_that_karpenter_started(nodes: Nodes) -> None:
    (gpu,), (cpu,) = nodes.of("g5").values(), nodes.of("cpu").values()
    assert nodes.triton() == gpu["metadata"]["name"]
    labels = gpu["metadata"]["labels"]
    assert (labels["node.kubernetes.io/instance-type"], labels[CAPACITY]) == ("g5.xlarge", "on-demand")
    assert (labels["triton-eks/pool"], labels["nvidia.com/gpu.present"]) == ("g5", "true")
    assert gpu["spec"]["taints"] == [GPU_TAINT]
    assert gpu["status"]["allocatable"]["nvidia.com/gpu"] == "1"
    assert cpu["metadata"]["labels"]["node.kubernetes.io/instance-type"] in {"m7i.xlarge", "m6i.xlarge"}
    assert cpu["spec"]["taints"] == [{"key": "triton-eks/pool", "value": "cpu", "effect": "NoSchedule"}]

    (instance,) = nodes.instances("g5").values()
    assert instance_of(gpu) == instance["InstanceId"]
    tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
    assert (tags["Name"], tags["kubernetes.io/cluster/triton-local"]) == ("triton-local-g5", "owned")
    (image,) = nodes.aws("ec2").describe_images(ImageIds=[instance["ImageId"]])["Images"]
    assert "x86_64-nvidia-1.35-" in image["Name"]


def test_a_load_says_how_many_nodes_there_are(nodes: Nodes) -> None:
    done = nodes.run("load", "--rate", "2", "--seconds", "3", seconds=120)
    assert done.returncode == 0, done.stdout[-4000:]
    assert "ready nodes: 2 at first, 2 at most, 2 at the end" in done.stdout


def test_karpenter_listens_on_this_machine_alone(nodes: Nodes) -> None:
    record = processes.find(nodes.home, "karpenter")
    assert record is not None
    assert {address.rpartition(":")[0] for address in listening(record.pid)} <= {
        "0100007F",
        "0000000000000000FFFF00000100007F",
    }


def test_pods_that_wait_get_nodes_up_to_the_limit_and_the_nodes_go_one_at_a_time_when_the_pods_do(nodes: Nodes) -> None:
    nodes.deploy("burst", 5)
    try:
        where = nodes.placed("burst", 3)
        assert len(set(where.values()) | {nodes.triton()}) == 4, "a GPU each"
        log = nodes.home.logs / "karpenter.log"
        nodes.until(lambda: "exceed" in log.read_text(), "Karpenter to say that the pool has as many as it may")
        assert len(nodes.instances("g5")) == 4
    finally:
        nodes.kube.delete(f"{DEPLOYMENTS}/burst")
    assert nodes.most_leaving("g5", lambda: len(nodes.instances("g5")) == 1, "the three nodes to be ended") == 1
    nodes.until(lambda: nodes.of("g5").keys() == {nodes.triton()}, "Triton's node to be left")


def test_a_pool_of_gpus_comes_from_no_node_and_goes_back_to_none(nodes: Nodes) -> None:
    nodes.merge(TRITON, {"spec": {"replicas": 0}})
    try:
        nodes.until(lambda: not nodes.instances("g5"), "the last GPU node to be ended")
    finally:
        nodes.merge(TRITON, {"spec": {"replicas": 1}})
    assert nodes.triton() in nodes.of("g5")
    assert len(nodes.instances("g5")) == 1


def test_for_workers_that_come_together_one_node_is_started_in_each_zone(nodes: Nodes) -> None:
    """If the workers preferred separate hosts, four nodes would start. The scheduler places them on the two."""
    worker = "/apis/apps/v1/namespaces/triton-worker/deployments/triton-worker"

    def places() -> list[str | None]:
        listed = nodes.kube.get("/api/v1/namespaces/triton-worker/pods")["items"]
        return [pod["spec"].get("nodeName") for pod in listed if "deletionTimestamp" not in pod["metadata"]]

    def zones_of_four_workers() -> list[str]:
        started = [one for id, one in nodes.launched("cpu").items() if id not in earlier]
        placed = [place for place in places() if place]
        return [one["Placement"]["AvailabilityZone"] for one in started] if len(placed) == 4 and len(started) > 1 else []

    nodes.merge(worker, {"spec": {"replicas": 0}})
    try:
        nodes.until(lambda: not nodes.instances("cpu"), "the workers' node to be ended")
        earlier = nodes.launched("cpu").keys()
        nodes.merge(worker, {"spec": {"replicas": 4}})
        zones = nodes.until(zones_of_four_workers, "four workers to be on nodes, and more than one node to be started")
        assert sorted(zones) == ["us-west-2a", "us-west-2b"]
    finally:
        nodes.merge(worker, {"spec": {"replicas": 1}})

    def one_is_left() -> bool:
        placed = places()
        return len(placed) == 1 and {*placed} == nodes.of("cpu").keys() and len(nodes.instances("cpu")) == 1

    nodes.until(one_is_left, "the node of the other workers to be ended")


def test_a_newer_image_replaces_the_nodes_one_at_a_time(nodes: Nodes) -> None:
    with nodes.deployed("drifted", 1):
        nodes.placed("drifted", 1)
        old = nodes.instances("g5").keys()

        def replaced() -> bool:
            return not old & nodes.instances("g5").keys() and len(nodes.of("g5")) == 2

        node_class = f"{NODE_CLASSES}/g5"
        terms = nodes.kube.get(node_class)["spec"]["amiSelectorTerms"]
        nodes.merge(node_class, {"spec": {"amiSelectorTerms": [{"alias": "al2023@v20991231"}]}})
        try:
            assert nodes.most_leaving("g5", replaced, "both nodes to be replaced") == 1
            images = {one["ImageId"] for one in nodes.instances("g5").values()}
            (image,) = nodes.aws("ec2").describe_images(ImageIds=[*images])["Images"]
            assert image["Name"].endswith("-v20991231")
            assert nodes.triton() in nodes.of("g5")
        finally:
            nodes.merge(node_class, {"spec": {"amiSelectorTerms": terms}})


def test_its_role_allowed_every_call(nodes: Nodes) -> None:
    with nodes.deployed("once", 1):
        nodes.placed("once", 1)
    calls = nodes.calls()
    assert calls["refused"] == {}
    assert {
        "ec2:CreateFleet",
        "ec2:CreateLaunchTemplate",
        "ec2:CreateTags",
        "ec2:RunInstances",
        "ec2:TerminateInstances",
    } <= (calls["allowed"].keys())
