"""`warmPods`: a node that waits for Triton's next pod, which takes it at once, and another one that is started to wait."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from spec.names import TRITON_NAMESPACE, WARM_PODS_NAMESPACE
from tests.system.e2e.conftest import UP_SECONDS
from tests.system.e2e.karpenter_nodes import Nodes, is_ready
from twin.host.home import TwinHome

# Karpenter and KEDA may have to be built first.
pytestmark = pytest.mark.timeout(5400)
SCALED_OBJECT = f"/apis/keda.sh/v1alpha1/namespaces/{TRITON_NAMESPACE}/scaledobjects/triton"


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    """One whose pods of Triton are scaled, with one node more than they need."""
    twin = Nodes(TwinHome(tmp_path / "home"))
    twin.pin("triton-eks:autoscaling.warmPods", 1)
    try:
        up = twin.run("up", "--karpenter", "--autoscaling", seconds=2 * UP_SECONDS)
        assert up.returncode == 0, up.stdout[-4000:]
        yield twin
    finally:
        twin.down()


def pods(nodes: Nodes, namespace: str) -> dict[str, str]:
    """The ready pods of a namespace with their nodes."""
    listed = nodes.kube.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in listed if is_ready(pod)}


def test_the_next_pod_takes_the_node_that_waits_and_another_one_is_started_to_wait(nodes: Nodes) -> None:
    first = nodes.triton()
    (waiting,) = nodes.until(lambda: pods(nodes, WARM_PODS_NAMESPACE), "the warm pod to have its node").values()
    assert nodes.of("g5").keys() == {first, waiting}
    assert waiting != first

    nodes.merge(SCALED_OBJECT, {"spec": {"minReplicaCount": 2}})
    both = nodes.until(
        lambda: found if len(found := pods(nodes, TRITON_NAMESPACE)) == 2 else None, "a second pod of Triton to be ready"
    )
    assert set(both.values()) == {first, waiting}

    def elsewhere() -> str | None:
        return next((node for node in pods(nodes, WARM_PODS_NAMESPACE).values() if node not in both.values()), None)

    assert nodes.until(elsewhere, "the warm pod to have another node") in nodes.of("g5")
