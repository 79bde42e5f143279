"""`make up KARPENTER=1`: the real Karpenter starts and ends nodes, from the program's pools and with its role's rights."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.system.e2e.conftest import UP_SECONDS
from tests.system.e2e.karpenter_nodes import DEPLOYMENTS, NODE_POOLS, REGION, Nodes, instance_of
from tests.system.e2e.sockets import listening
from tests.system.e2e.watched_end import WatchedEnd
from twin.aws.moto_launches import WITHOUT_CAPACITY
from twin.host import processes
from twin.host.home import TwinHome

# Karpenter may have to be built first.
pytestmark = pytest.mark.timeout(5400)

QUEUE = "triton-local-interruptions"
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
TRITON = "/apis/apps/v1/namespaces/triton/deployments/triton"
FORGETS_SECONDS = 360.0
"""Karpenter does not ask again for three minutes for what EC2 has none of."""
CAPACITY = "karpenter.sh/capacity-type"
NODE_CLASSES = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """One that is up. Tests that use it leave it as they found it: Triton on a GPU node, the worker on another."""
    twin = Nodes(TwinHome(tmp_path_factory.mktemp("nodes") / "home"))
    try:
        up = twin.run("up", "--karpenter", seconds=2 * UP_SECONDS)
        assert up.returncode == 0, up.stdout[-4000:]
        # 15 and 5 minutes, which are for people's machines.
        twin.merge(f"{NODE_POOLS}/g5", {"spec": {"disruption": {"consolidateAfter": "2s"}}})
        twin.merge(f"{NODE_POOLS}/cpu", {"spec": {"disruption": {"consolidateAfter": "2s"}}})
        yield twin
    finally:
        twin.down()


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
    """Were they to prefer hosts of their own, it would be four nodes. Which of the two they land on is the scheduler's."""
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


def test_where_a_type_has_no_capacity_the_next_one_is_taken(nodes: Nodes) -> None:
    nodes.aws("ssm").put_parameter(Name=WITHOUT_CAPACITY, Value="g5.xlarge", Type="String", Overwrite=True)
    try:
        with nodes.deployed("elsewhere", 1):
            (node,) = nodes.placed("elsewhere", 1).values()
            labels = nodes.until(lambda: nodes.of("g5").get(node), "the node to be Ready")["metadata"]["labels"]
            assert labels["node.kubernetes.io/instance-type"] == "g5.2xlarge"
    finally:
        nodes.aws("ssm").delete_parameter(Name=WITHOUT_CAPACITY)


def test_a_pod_for_which_no_type_has_capacity_waits_for_it_and_costs_no_request(nodes: Nodes) -> None:
    log = nodes.home.logs / "karpenter.log"
    read = log.stat().st_size
    launched = nodes.launched("g5").keys()
    without = {"Name": WITHOUT_CAPACITY, "Value": "g5.xlarge,g5.2xlarge", "Type": "String", "Overwrite": True}
    nodes.aws("ssm").put_parameter(**without)
    try:
        with WatchedEnd(nodes.servers().cluster()) as clients:
            nodes.until(lambda: clients.outcomes["answered"] > 0, "the clients to be answered")
            nodes.merge(TRITON, {"spec": {"replicas": 2}})
            nodes.until(
                lambda: "InsufficientInstanceCapacity" in log.read_bytes()[read:].decode(),
                "Karpenter to be told that there is none",
            )
            assert (len(nodes.tritons()), nodes.launched("g5").keys()) == (1, launched)
            nodes.aws("ssm").delete_parameter(Name=WITHOUT_CAPACITY)
            both = nodes.until(
                lambda: found if len(found := nodes.tritons()) == 2 else None, "a second pod", FORGETS_SECONDS
            )
        assert len(set(both.values())) == 2
        assert clients.outcomes.keys() <= {"answered", "shed"}
    finally:
        nodes.aws("ssm").delete_parameters(Names=[WITHOUT_CAPACITY])
        nodes.merge(TRITON, {"spec": {"replicas": 1}})
    nodes.until(lambda: len(nodes.of("g5")) == len(nodes.instances("g5")) == 1, "only one GPU node to be left")


def test_a_karpenter_that_is_killed_amid_a_launch_finishes_it_leaves_no_machine_and_costs_no_request(nodes: Nodes) -> None:
    launched = nodes.launched("g5").keys()
    with WatchedEnd(nodes.servers().cluster()) as clients:
        nodes.until(lambda: clients.outcomes["answered"] > 0, "the clients to be answered")
        with nodes.deployed("unattended", 1):  # which waits for every other machine to be ended
            nodes.until(lambda: nodes.launched("g5").keys() - launched, "a machine to be launched")
            killed = processes.find(nodes.home, "karpenter")
            assert killed is not None
            processes.signal_record(killed, signal.SIGKILL)

            def another() -> bool:
                now = processes.find(nodes.home, "karpenter")
                return now is not None and now.pid != killed.pid

            nodes.until(another, "Karpenter to be started again")
            nodes.placed("unattended", 1)
    assert clients.outcomes.keys() <= {"answered", "shed"}


@contextmanager
def another_pool(nodes: Nodes, name: str, change: Callable[[Any], None]) -> Iterator[None]:
    """Have a NodePool like that of g5, with a change of its nodes' template, for the length of the block."""
    pool = nodes.kube.get(f"{NODE_POOLS}/g5")
    template = pool["spec"]["template"]
    template["metadata"]["labels"]["triton-eks/pool"] = name
    change(template["spec"])
    body = {"apiVersion": pool["apiVersion"], "kind": "NodePool", "metadata": {"name": name}, "spec": pool["spec"]}
    nodes.kube.apply(f"{NODE_POOLS}/{name}", body, manager="test")
    try:
        nodes.deploy(name, 1, pool=name)
        yield
    finally:
        nodes.kube.delete(f"{DEPLOYMENTS}/{name}")
        nodes.kube.delete(f"{NODE_POOLS}/{name}")
        nodes.until(lambda: not nodes.instances(name), "the machines of the pool to be ended")


def test_a_node_that_expires_is_replaced_and_its_pod_moves(nodes: Nodes) -> None:
    """Nodes of the program's own pools do not expire."""
    with another_pool(nodes, "aging", lambda of_nodes: of_nodes.update(expireAfter="45s")):
        (first,) = nodes.placed("aging", 1).values()
        instance = instance_of(nodes.until(lambda: nodes.of("aging").get(first), "the node to be Ready"))
        nodes.until(lambda: instance not in nodes.instances("aging"), "the machine to be ended")
        (second,) = nodes.placed("aging", 1).values()
        assert second != first


def test_where_ec2_takes_a_spot_machine_back_and_has_no_other_the_pod_gets_one_on_demand(nodes: Nodes) -> None:
    def spot(of_nodes: Any) -> None:
        (kind,) = [one for one in of_nodes["requirements"] if one["key"] == CAPACITY]
        kind["values"] = ["spot", "on-demand"]  # of `capacity: spot`

    with another_pool(nodes, "spot", spot):
        (first,) = nodes.placed("spot", 1).values()
        node = nodes.until(lambda: nodes.of("spot").get(first), "the node to be Ready")
        assert node["metadata"]["labels"][CAPACITY] == "spot"
        none = {"Name": WITHOUT_CAPACITY, "Value": "g5.xlarge/spot,g5.2xlarge/spot", "Type": "String", "Overwrite": True}
        nodes.aws("ssm").put_parameter(**none)
        try:
            warn(nodes, instance_of(node))
            nodes.until(lambda: instance_of(node) not in nodes.instances("spot"), "the spot machine to be ended")
            (second,) = nodes.placed("spot", 1).values()
            labels = nodes.until(lambda: nodes.of("spot").get(second), "the next node to be Ready")["metadata"]["labels"]
            assert labels[CAPACITY] == "on-demand"
        finally:
            nodes.aws("ssm").delete_parameter(Name=WITHOUT_CAPACITY)


def warn(nodes: Nodes, instance: str) -> tuple[Any, str]:
    """Say, as EventBridge would, that EC2 takes an instance back; the client of SQS, and the queue."""
    sqs = nodes.aws("sqs")
    url = sqs.get_queue_url(QueueName=QUEUE)["QueueUrl"]
    warning = {
        "version": "0",
        "id": "1",
        "source": "aws.ec2",
        "account": "123456789012",
        "time": "2026-11-23T12:00:00Z",
        "region": REGION,
        "resources": [f"arn:aws:ec2:{REGION}:123456789012:instance/{instance}"],
        "detail-type": "EC2 Spot Instance Interruption Warning",
        "detail": {"instance-id": instance, "instance-action": "terminate"},
    }
    sqs.send_message(QueueUrl=url, MessageBody=json.dumps(warning))
    return sqs, url


def test_a_machine_that_ec2_takes_back_is_drained_first(nodes: Nodes) -> None:
    with nodes.deployed("warned", 1):
        (before,) = nodes.placed("warned", 1).values()
        node = nodes.until(lambda: nodes.of("g5").get(before), "the node to be Ready")
        instance = instance_of(node)
        sqs, url = warn(nodes, instance)
        nodes.until(lambda: before not in nodes.of("g5"), "the node to be on its way out")
        nodes.until(lambda: instance not in nodes.instances("g5"), "the instance to be ended")
        (after,) = nodes.placed("warned", 1).values()
        assert after != before
        counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        assert (counts["ApproximateNumberOfMessages"], counts["ApproximateNumberOfMessagesNotVisible"]) == ("0", "0")


def test_no_request_is_lost_while_ec2_takes_the_machine_of_a_pod_back(nodes: Nodes) -> None:
    """With a second pod: the one that is left answers while the other one has no node."""
    nodes.merge(TRITON, {"spec": {"replicas": 2}})
    try:
        before = nodes.until(lambda: found if len(found := nodes.tritons()) == 2 else None, "two pods of Triton")
        pod, name = sorted(before.items())[0]
        instance = instance_of(nodes.of("g5")[name])
        with WatchedEnd(nodes.servers().cluster()) as clients:
            nodes.until(lambda: clients.outcomes["answered"] > 0, "the clients to be answered")
            warn(nodes, instance)
            nodes.until(lambda: instance not in nodes.instances("g5"), "the instance to be ended")
            after = nodes.until(lambda: found if len(found := nodes.tritons()) == 2 else None, "two pods again")
        assert pod not in after and name not in after.values()
        assert clients.drained
        assert clients.outcomes.keys() <= {"answered", "shed"}
    finally:
        nodes.merge(TRITON, {"spec": {"replicas": 1}})
    nodes.until(lambda: len(nodes.of("g5")) == len(nodes.instances("g5")) == 1, "only one GPU node to be left")


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
