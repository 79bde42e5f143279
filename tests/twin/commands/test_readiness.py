"""Waiting for Triton: progress messages and timeout, with a fake cluster and log files."""

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar, cast

import pytest
from botocore.exceptions import ReadTimeoutError

from twin.cluster.kube_api import KubeClient
from twin.cluster.launched import InstanceReader
from twin.cluster.node_groups import AwsReader
from twin.cluster.node_objects import LaunchedInstance, Machine, NodeGroup
from twin.cluster.view import ClusterView, Pod
from twin.commands import readiness
from twin.commands.readiness import NotServing, addresses, wait, wait_for_gateway, wait_for_machines
from twin.host.home import TwinHome
from twin.host.processes import DeadlinePassed

POD = Pod("triton", "triton-1", "uid-1", "node", "10.244.128.2", "127.244.128.2", "Running", "Running", 0, False)
CRASHED = dataclasses.replace(POD, status="CrashLoopBackOff")
READY = dataclasses.replace(POD, ready=True)
FAILED = "E1121 19:07:02.469033 5643 model_lifecycle.cc:642] \"failed to load 'a' version 2: Not found: no model.py\"\n"


T = TypeVar("T")


class PlayedView(ClusterView):
    """A cluster with the next of these pods at each look; rolled out once one is Ready."""

    def __init__(self, *looks: list[Pod]) -> None:
        super().__init__(cast(KubeClient, None))
        object.__setattr__(self, "_looks", _with_last_repeated(looks))
        object.__setattr__(self, "_now", [])

    def pods(self) -> list[Pod]:
        object.__setattr__(self, "_now", next(self._looks))  # type: ignore[attr-defined]
        return self._now  # type: ignore[attr-defined,no-any-return]

    def rolled_out(self, namespace: str, deployment: str) -> bool:
        return any(pod.ready for pod in self._now)  # type: ignore[attr-defined]

    def service_addresses(self, namespace: str, service: str) -> list[str]:
        return next(self._endpoints)  # type: ignore[attr-defined,no-any-return]

    def wanted(self, namespace: str, deployment: str) -> int:
        return next(self._wanted)  # type: ignore[attr-defined,no-any-return]

    def has_wanted(self, *looks: int) -> "PlayedView":
        object.__setattr__(self, "_wanted", iter(looks))
        return self

    def nodes(self) -> list[str]:
        return next(self._node_looks)  # type: ignore[attr-defined,no-any-return]

    def has_nodes(self, *looks: list[str]) -> "PlayedView":
        object.__setattr__(self, "_node_looks", _with_last_repeated(looks))
        return self

    def has_endpoints(self, *looks: list[str]) -> "PlayedView":
        object.__setattr__(self, "_endpoints", _with_last_repeated(looks))
        return self

    def warnings(self, namespace: str, pod: str) -> list[str]:
        return ["FailedScheduling: 0/2 nodes are available"]


def _with_last_repeated(looks: Iterable[list[T]]) -> Iterator[list[T]]:
    last: list[T] = []
    for last in looks:
        yield last
    while True:
        yield last


class PlayedAws(AwsReader):
    """An AWS with one node group of two instances, which does not answer the first time."""

    def __init__(self) -> None:
        self._answers = iter([False])

    def node_groups(self) -> list[NodeGroup]:
        if not next(self._answers, True):
            raise ReadTimeoutError(endpoint_url="http://127.0.0.1")
        return [NodeGroup("c", "new", 2, Machine("g5.xlarge", 4, 16384), ("us-west-2a",))]


class PlayedInstances(InstanceReader):
    """One instance, launched by Karpenter, which is a node."""

    def __init__(self) -> None:
        pass

    def running(self) -> list[LaunchedInstance]:
        machine = Machine("g5.xlarge", 4, 16384)
        return [LaunchedInstance("i-1", "ip-10-0-0-4", "c", "us-west-2a", machine, 0.0, {}, (), None, "1.35", 200)]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "_POLL_SECONDS", 0.001)


def with_restarts(pod: Pod, restarts: int) -> Pod:
    return dataclasses.replace(pod, restarts=restarts)


def test_it_is_said_what_is_waited_for_and_each_change_once(tmp_path: Path) -> None:
    said: list[str] = []
    pending = dataclasses.replace(POD, phase="Pending", status="ContainerCreating")
    view = PlayedView([], [pending], [pending], [POD], [POD], [READY])
    assert wait(TwinHome(tmp_path), view, "abc", said.append) < 30
    assert said == [
        "waiting until every Triton pod serves release abc (at most 180 s) ...",
        "  triton-1: ContainerCreating",
        "  triton-1: Running",
        "  triton-1: Ready",
    ]


def test_a_pod_that_ended_twice_is_given_up_with_the_cause_in_its_log(tmp_path: Path) -> None:
    log = tmp_path / "pods" / "uid-1" / "triton.log"
    log.parent.mkdir(parents=True)
    log.write_text(FAILED)
    view = PlayedView([POD], [CRASHED], [with_restarts(POD, 1)], [with_restarts(CRASHED, 2)])
    with pytest.raises(NotServing) as failure:
        wait(TwinHome(tmp_path), view, "abc", lambda _: None)
    assert str(failure.value).splitlines()[:4] == [
        "Triton does not start with release abc:",
        "  triton-1 (CrashLoopBackOff, restarts: 2):",
        "    failed to load 'a' version 2: Not found: no model.py",
        f"    log: {log}",
    ]


def test_every_fleet_is_waited_for(tmp_path: Path) -> None:
    asked: list[str] = []

    class OfTwo(PlayedView):
        def rolled_out(self, namespace: str, deployment: str) -> bool:
            asked.append(deployment)
            return deployment == "triton-a" or len(asked) > 4

    wait(TwinHome(tmp_path), OfTwo([READY]), "abc", lambda _: None, deployments=["triton-a", "triton-b"])
    assert asked == ["triton-a", "triton-b"] * 3


def test_restarts_from_before_do_not_count(tmp_path: Path) -> None:
    view = PlayedView([with_restarts(CRASHED, 5)], [with_restarts(POD, 6)], [with_restarts(READY, 6)])
    wait(TwinHome(tmp_path), view, "abc", lambda _: None)


def test_a_pod_that_never_starts_is_given_up_with_what_the_cluster_says_of_it(tmp_path: Path) -> None:
    view = PlayedView([dataclasses.replace(POD, phase="Pending", status="Pending")])
    with pytest.raises(NotServing) as failure:
        wait(TwinHome(tmp_path), view, "abc", lambda _: None, seconds=0.05)
    assert str(failure.value).splitlines()[:3] == [
        "not every Triton pod serves release abc after 0.05 s:",
        "  triton-1 (Pending, restarts: 0):",
        "    FailedScheduling: 0/2 nodes are available",
    ]


def test_a_server_that_runs_and_is_not_ready_is_explained_by_its_probe_before_the_log_of_its_earlier_starts(
    tmp_path: Path,
) -> None:
    log = tmp_path / "pods" / "uid-1" / "triton.log"
    log.parent.mkdir(parents=True)
    log.write_text(FAILED)
    with pytest.raises(NotServing) as failure:
        wait(TwinHome(tmp_path), PlayedView([with_restarts(POD, 2)]), "abc", lambda _: None, seconds=0.05)
    assert str(failure.value).splitlines()[1:4] == [
        "  triton-1 (Running, restarts: 2):",
        "    FailedScheduling: 0/2 nodes are available",
        "    failed to load 'a' version 2: Not found: no model.py",
    ]


def test_nodes_that_aws_has_no_more_are_waited_for_and_named_once() -> None:
    said: list[str] = []
    old, new = ["c-old-0"], ["c-new-0", "c-new-1", "ip-10-0-0-4"]
    view = PlayedView([]).has_nodes([*new, *old], [*new, *old], new)
    wait_for_machines(view, PlayedAws(), PlayedInstances(), said.append)
    assert said == ["waiting until nodes that AWS has no more are drained: c-old-0 (at most 180 s) ..."]
    assert view.nodes() == new


def test_nodes_that_are_never_drained_end_the_wait() -> None:
    view = PlayedView([]).has_nodes(["c-new-0", "c-new-2"])
    with pytest.raises(DeadlinePassed, match=r"in vain for nodes that AWS has no more to be drained"):
        wait_for_machines(view, PlayedAws(), PlayedInstances(), lambda _: None, seconds=0.05)


def test_the_addresses_are_those_of_ready_pods_although_the_endpoints_follow_later() -> None:
    old = dataclasses.replace(READY, name="triton-0", address="10.244.128.9", phase="Terminating")
    view = PlayedView([old, READY]).has_endpoints([], ["10.244.128.9"], ["10.244.128.2", "10.244.128.9"], ["10.244.128.2"])
    assert addresses(view) == ["10.244.128.2"]


def test_endpoints_that_never_come_are_named() -> None:
    view = PlayedView([READY]).has_endpoints([])
    with pytest.raises(DeadlinePassed, match=r"in vain for the Service triton to have the addresses of its ready pods"):
        addresses(view, seconds=0.05)


def test_a_fleet_that_falls_asleep_has_no_addresses_to_wait_for() -> None:
    ending = dataclasses.replace(READY, phase="Terminating")
    view = PlayedView([ending]).has_endpoints([], ["10.244.128.2"]).has_wanted(1, 1, 0)
    assert addresses(view, may_sleep=True) == []


def test_a_fleet_without_pods_that_may_not_sleep_is_waited_for() -> None:
    view = PlayedView([READY]).has_endpoints([], [], ["10.244.128.2"]).has_wanted(0)
    assert addresses(view) == ["10.244.128.2"]


def test_the_gateway_is_ready_once_each_envoy_that_stays_is() -> None:
    envoy = dataclasses.replace(POD, namespace="envoy-gateway-system", name="envoy-1")
    ready, second = dataclasses.replace(envoy, ready=True), dataclasses.replace(envoy, name="envoy-2")
    ending = dataclasses.replace(second, phase="Terminating")
    view = PlayedView([READY], [READY, envoy], [ready, second], [ready, ending], [READY])
    wait_for_gateway(view, lambda _: None)
    assert view.pods() == [READY], "it looked as long as an Envoy was missing or not ready, and no longer"


def test_envoys_that_never_come_are_named() -> None:
    with pytest.raises(DeadlinePassed, match=r"in vain for the Envoys of the namespace envoy-gateway-system to be ready"):
        wait_for_gateway(PlayedView([READY]), lambda _: None, seconds=0.05)
