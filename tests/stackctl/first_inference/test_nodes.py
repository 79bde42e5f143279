"""How long first-inference waits for a node; not at all if none will come."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from stackctl.account.cluster import AutoscalerEvent, Cluster, Pod
from stackctl.eks_health import Ailment
from stackctl.first_inference import nodes
from stackctl.first_inference.nodes import NodeWait

GROUP = "aws:eks/nodeGroup:NodeGroup"
NO_NODE = Pod("a", "Unschedulable: 0/2 nodes are available", hopeless=False, unschedulable=True)
RUNNING = Pod("a", "Running", hopeless=False)
FAILED = Ailment(GROUP, "triton-staging:g5", "CREATE_FAILED", ("no capacity",), "g5")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the monotonic clock, which the test moves."""
    now = [1000.0]
    monkeypatch.setattr(nodes.time, "monotonic", lambda: now[0])
    return now


def waiting(
    *ailments: Ailment, claims: list[Any] | None = None, event: AutoscalerEvent | None = None, denied: bool = False
) -> NodeWait:
    def found() -> tuple[Ailment, ...]:
        if denied:
            raise ClientError({"Error": {"Code": "AccessDeniedException"}}, "ListNodegroups")
        return ailments

    cluster = SimpleNamespace(objects=lambda _path: claims or [], autoscaler_event=lambda _pod: event)
    return NodeWait(cast(Cluster, cluster), "g5", found, str)


def after(wait: NodeWait, clock: list[float], seconds: float, pod: Pod = NO_NODE) -> list[str]:
    """Look at once, and again after this many seconds; return the messages of the second look."""
    assert wait.causes([pod]) == []
    clock[0] += seconds
    return wait.causes([pod])


@pytest.mark.parametrize(
    "ailment",
    [
        FAILED,
        Ailment(GROUP, "triton-staging:g5", "DEGRADED", ("no capacity",), "g5"),
        Ailment(GROUP, "triton-staging:g5", "ACTIVE", ("last scaling activity Failed",), "g5"),
        Ailment("aws:eks/addon:Addon", "triton-staging:vpc-cni", "DEGRADED", ()),
    ],
    ids=lambda one: one.status,
)
def test_a_group_of_the_pods_pool_that_gets_no_machine_ends_the_wait_at_once(ailment: Ailment, clock: list[float]) -> None:
    assert waiting(ailment).causes([NO_NODE]) == [str(ailment)]


def test_a_group_of_another_pool_does_not(clock: list[float]) -> None:
    other = Ailment(GROUP, "triton-staging:p4", "CREATE_FAILED", ("no capacity",), "p4")
    assert after(waiting(other), clock, 60) == []


def test_a_pod_that_has_a_node_is_waited_for_whatever_ails(clock: list[float]) -> None:
    assert after(waiting(FAILED), clock, 3600, RUNNING) == []


@pytest.mark.parametrize("denied", [False, True])
def test_a_pod_that_nobody_starts_a_node_for_is_given_up_after_five_minutes(denied: bool, clock: list[float]) -> None:
    refusal = AutoscalerEvent(False, datetime.now(UTC), "karpenter: no instance type has enough resources")
    wait = waiting(event=refusal, denied=denied)
    assert after(wait, clock, 299) == []
    clock[0] += 16
    assert wait.causes([NO_NODE]) == [
        "no node that can hold it has started for 300 s, and none is on its way",
        "a: karpenter: no instance type has enough resources",
    ]


def test_a_node_that_karpenter_starts_is_waited_for(clock: list[float]) -> None:
    assert after(waiting(claims=[{"metadata": {"name": "g5-x"}}]), clock, 3000) == []


@pytest.mark.parametrize(("minutes", "waited"), [(14, True), (16, False)])
def test_a_promise_of_an_autoscaler_holds_for_a_quarter_of_an_hour(minutes: int, waited: bool, clock: list[float]) -> None:
    promise = AutoscalerEvent(
        True, datetime.now(UTC) - timedelta(minutes=minutes), "cluster-autoscaler: pod triggered scale-up"
    )
    assert (after(waiting(event=promise), clock, 3000) == []) is waited


def test_the_five_minutes_begin_again_when_a_pod_has_had_a_node(clock: list[float]) -> None:
    wait = waiting()
    assert after(wait, clock, 250) == []
    assert wait.causes([RUNNING]) == []
    assert after(wait, clock, 290) == []
