"""The real Karpenter if EC2 lacks machines or takes them back, if nodes expire, and if Karpenter itself is killed."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.system.e2e.karpenter_nodes import DEPLOYMENTS, NODE_POOLS, REGION, TRITON, Nodes, instance_of
from tests.system.e2e.watched_end import WatchedEnd
from twin.aws.faults import WITHOUT_CAPACITY
from twin.host import processes

# Karpenter may have to be built first.
pytestmark = pytest.mark.timeout(5400)

QUEUE = "triton-local-interruptions"
FORGETS_SECONDS = 360.0
"""After EC2 has no capacity for a request, Karpenter waits three minutes before it tries again."""
CAPACITY = "karpenter.sh/capacity-type"


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
        with nodes.deployed("unattended", 1):  # it waits until all other machines are terminated
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
    """Create a NodePool like g5's, with a change of its nodes' template, during the block."""
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
    """Send EventBridge's warning that EC2 takes an instance back. Return the SQS client and the queue."""
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
    """With a second pod, which answers while the first one has no node."""
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


def test_its_role_allowed_every_call(nodes: Nodes) -> None:
    with nodes.deployed("once", 1):
        nodes.placed("once", 1)
    calls = nodes.calls()
    assert calls["refused"] == {}
    assert {"sqs:ReceiveMessage", "sqs:DeleteMessage", "ec2:TerminateInstances"} <= calls["allowed"].keys()
