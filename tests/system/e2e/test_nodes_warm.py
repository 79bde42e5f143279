"""`warmPods`: Triton's next pod starts at once on a node that waits for it, and another node is started to wait."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from spec.names import TRITON_NAMESPACE, WARM_PODS_NAMESPACE
from tests.system.e2e.conftest import UP_SECONDS
from tests.system.e2e.karpenter_nodes import Nodes
from twin.host.home import TwinHome

# Karpenter and KEDA may have to be built first.
pytestmark = pytest.mark.timeout(5400)
SCALED_OBJECT = f"/apis/keda.sh/v1alpha1/namespaces/{TRITON_NAMESPACE}/scaledobjects/triton"


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    """Return a twin whose Triton pods are scaled, with one node more than they need."""
    twin = Nodes(TwinHome(tmp_path / "home"))
    twin.pin("triton-eks:autoscaling.warmPods", 1)
    try:
        up = twin.run("up", "--karpenter", "--autoscaling", seconds=2 * UP_SECONDS)
        assert up.returncode == 0, up.stdout[-4000:]
        yield twin
    finally:
        twin.down()


def test_the_next_pod_takes_the_node_that_waits_and_another_one_is_started_to_wait(nodes: Nodes) -> None:
    first = nodes.triton()
    (waiting,) = nodes.until(lambda: nodes.ready(WARM_PODS_NAMESPACE), "the warm pod to have its node").values()
    nodes.until(lambda: nodes.of("g5").keys() == {first, waiting}, "a node for each of the two")
    assert waiting != first

    nodes.merge(SCALED_OBJECT, {"spec": {"minReplicaCount": 2}})
    both = nodes.until(lambda: found if len(found := nodes.tritons()) == 2 else None, "a second pod of Triton to be ready")
    assert set(both.values()) == {first, waiting}

    def elsewhere() -> str | None:
        return next((node for node in nodes.ready(WARM_PODS_NAMESPACE).values() if node not in both.values()), None)

    third = nodes.until(elsewhere, "the warm pod to have another node")
    nodes.until(lambda: nodes.of("g5").keys() == {first, waiting, third}, "a node for each of the three")
