"""Waiting for a Deployment and an annotation's condition; a timeout fails with the pods' reasons and keeps the object."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any, cast

import grpc
import pytest
from google.rpc import status_pb2
from pulumi.runtime.proto import provider_pb2

from tests.twin.plugins.recording_engine import plain, provider_stub, struct, urn
from twin.cluster.kube_api import KubeClient
from twin.plugins import awaiting
from twin.plugins.errors import NotReady
from twin.plugins.kube_objects import KubeObjects
from twin.plugins.provider import Provider, Resource
from twin.plugins.server import EngineLog
from twin.plugins.values import Values

PATH = "/apis/apps/v1/namespaces/triton/deployments/triton"
SETS, PODS = "/apis/apps/v1/namespaces/triton/replicasets", "/api/v1/namespaces/triton/pods"
AVAILABLE = {"type": "Available", "status": "True"}
UNAVAILABLE = {
    "type": "Available",
    "status": "False",
    "reason": "MinimumReplicasUnavailable",
    "message": "Deployment does not have minimum availability.",
}
ROLLED_OUT = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}


def deployment(*conditions: Mapping[str, Any], revision: str = "1", seen: int = 2, **annotations: str) -> dict[str, Any]:
    named = {f"pulumi.com/{key}": value for key, value in annotations.items()}
    metadata = {"name": "triton", "namespace": "triton", "uid": "d", "generation": 2, "managedFields": [{}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {**metadata, "annotations": {"deployment.kubernetes.io/revision": revision, **named}},
        "status": {"observedGeneration": seen, "conditions": list(conditions)},
    }


def owned(by: str, uid: str, *, revision: str = "", **parts: Any) -> dict[str, Any]:
    metadata = {"name": uid, "namespace": "triton", "uid": uid, "ownerReferences": [{"uid": by}]}
    return {"metadata": {**metadata, "annotations": {"deployment.kubernetes.io/revision": revision}}, **parts}


def replica_set(revision: str = "1", ready: int = 1) -> dict[str, Any]:
    return owned("d", f"rs{revision}", revision=revision, spec={"replicas": 1}, status={"readyReplicas": ready})


class Cluster:
    """An API server: each look at the object returns the next state; the last one stays."""

    def __init__(self, *states: dict[str, Any], sets: Any = (), pods: Any = ()) -> None:
        self.states = list(states)
        self.lists = {SETS: sets, PODS: pods}

    def find(self, path: str) -> dict[str, Any]:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def get(self, path: str) -> dict[str, Any]:
        return {"items": list(self.lists[path])}

    def ready(self, first: dict[str, Any], timeout: float = 60, cancelled: bool = False) -> dict[str, Any]:
        stop = threading.Event()
        if cancelled:
            stop.set()
        return awaiting.ready(cast(KubeClient, self), PATH, first, timeout, stop, poll=0.001)


@pytest.mark.parametrize(
    ("ready", "sets"),
    [
        (deployment(AVAILABLE), [replica_set()]),
        (deployment(AVAILABLE, ROLLED_OUT, revision="2"), [replica_set("1", 0), replica_set("2")]),
        (deployment(AVAILABLE), [owned("d", "rs1", revision="1", spec={"replicas": 0}, status={})]),
    ],
    ids=["made", "rolled out", "scaled to nothing"],
)
def test_a_deployment_is_ready_when_the_pods_of_its_newest_revision_are(ready: dict[str, Any], sets: Any) -> None:
    unseen, waiting = deployment(seen=1), deployment(UNAVAILABLE)
    assert Cluster(unseen, waiting, ready, sets=sets).ready(deployment(AVAILABLE, ROLLED_OUT, seen=1)) is ready


@pytest.mark.parametrize(
    ("state", "sets", "why"),
    [
        (deployment(AVAILABLE, seen=1), [replica_set()], "its controller has not seen it yet"),
        (
            deployment(AVAILABLE),
            [replica_set(ready=0)],
            "Attempted to roll forward to new ReplicaSet, but minimum",
        ),
        (deployment(AVAILABLE, revision="2"), [replica_set("2")], "Minimum number of Pods to consider the application live"),
        (deployment(AVAILABLE, ROLLED_OUT, revision="2"), [replica_set("1")], "Attempted to roll forward to new ReplicaSet"),
    ],
)
def test_old_pods_do_not_make_a_change_ready(state: dict[str, Any], sets: Any, why: str) -> None:
    with pytest.raises(NotReady) as failed:
        Cluster(state, sets=sets).ready(state, timeout=0.01)
    assert failed.value.reasons[1].startswith(why)


def pod(name: str, *conditions: Mapping[str, Any], containers: Any = ()) -> dict[str, Any]:
    return owned("rs1", name, status={"conditions": list(conditions), "containerStatuses": list(containers)})


def test_pods_that_never_become_ready_are_told_with_their_reasons() -> None:
    unready = {"type": "Ready", "status": "False", "message": "containers with unready status: [triton]"}
    crashing = {
        "name": "triton",
        "ready": False,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
        "lastState": {"terminated": {"reason": "Error", "exitCode": 1}},
    }
    unscheduled = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
    pods = [
        pod("a", unready, containers=[crashing]),
        pod("b", unscheduled),
        pod("c", {"type": "Ready", "status": "True"}),
        owned("other", "d", status={"conditions": [unready]}),
    ]
    state = deployment(UNAVAILABLE, timeoutSeconds="0")
    with pytest.raises(NotReady) as failed:
        Cluster(state, sets=[replica_set(ready=0)], pods=pods).ready(state, timeout=0)
    assert failed.value.reasons == [
        "'triton' timed out waiting to be Ready",
        "[MinimumReplicasUnavailable] Deployment does not have minimum availability.",
        "Minimum number of live Pods was not attained",
        "[Pod triton/a]: containers with unready status: [triton]; [CrashLoopBackOff] back-off 10s; "
        'container "triton" terminated (Error: exit code 1)',
        "[Pod triton/b]: 0/3 nodes are available",
    ]
    assert failed.value.id == "triton/triton"
    assert "managedFields" not in failed.value.outputs["metadata"]


def test_ctrl_c_ends_the_wait() -> None:
    with pytest.raises(NotReady, match='Resource operation was cancelled for "triton"'):
        Cluster(deployment(UNAVAILABLE)).ready(deployment(UNAVAILABLE), cancelled=True)


@pytest.mark.parametrize(
    "first",
    [deployment(UNAVAILABLE, skipAwait="true"), {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}],
    ids=["one that says so", "another kind"],
)
def test_it_is_not_waited_for(first: dict[str, Any]) -> None:
    assert Cluster(deployment(UNAVAILABLE)).ready(first) is first


def test_a_command_that_waits_itself_is_not_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(*next(iter(awaiting.WITHOUT.items())))
    unready = deployment(UNAVAILABLE)
    assert Cluster(unready).ready(unready) is unready


def gateway(wait_for: str, **status: Any) -> dict[str, Any]:
    metadata = {"name": "triton", "annotations": {"pulumi.com/waitFor": wait_for, "pulumi.com/timeoutSeconds": "0"}}
    return {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": metadata, "status": status}


ADDRESS = "jsonpath={.status.addresses[0].value}"
PROGRAMMED = [{"type": "Programmed", "status": "True"}]


@pytest.mark.parametrize(
    ("wait_for", "status", "lacks"),
    [
        (ADDRESS, {"addresses": [{"value": "lb.example.com"}]}, None),
        (ADDRESS, {"addresses": []}, ".status.addresses[0].value selected nothing"),
        (f"{ADDRESS}=b", {"addresses": [{"value": "a"}]}, ".status.addresses[0].value is a, and not b"),
        ("condition=Programmed", {"conditions": PROGRAMMED}, None),
        ("condition=Accepted", {"conditions": PROGRAMMED}, "condition=Accepted: its conditions do not have it"),
        (
            "condition=Programmed=False",
            {"conditions": PROGRAMMED},
            "condition=Programmed=False: its conditions do",
        ),
    ],
)
def test_an_annotation_says_what_is_waited_for(wait_for: str, status: dict[str, Any], lacks: str | None) -> None:
    state = gateway(wait_for, **status)
    if lacks is None:
        assert Cluster(state).ready(gateway(wait_for)) is state
        return
    with pytest.raises(NotReady) as failed:
        Cluster(state).ready(state, timeout=0)
    assert failed.value.reasons[0] == "'triton' timed out waiting to be Ready"
    assert failed.value.reasons[1].startswith(lacks)


@pytest.mark.parametrize("wait_for", ["Ready", "jsonpath={.status.addresses[*].value}", "jsonpath=.status", "condition="])
def test_what_the_twin_cannot_wait_for_is_refused_before_anything_is_made(wait_for: str) -> None:
    [failure] = awaiting.mistakes(gateway(wait_for))
    assert failure.property == 'metadata.annotations["pulumi.com/waitFor"]'
    assert failure.reason.startswith(f"{wait_for!r} is none of jsonpath={{.field[0].field}}")
    assert awaiting.mistakes(gateway(ADDRESS)) == []


class _Unready(Provider):
    package, distribution = "kubernetes", "pulumi_kubernetes"

    def create(self, resource: Resource, inputs: Values, timeout: float) -> tuple[str, Values]:
        raise NotReady("triton/triton", {**inputs, "status": {}}, ["'triton' timed out", "no nodes"])


@pytest.fixture
def unready() -> Iterator[Any]:
    with provider_stub(_Unready(EngineLog("127.0.0.1:1"))) as stub:
        yield stub


def test_the_engine_is_told_what_was_made_and_why_it_is_not_ready(unready: Any) -> None:
    inputs = {"apiVersion": "apps/v1", "kind": "Deployment"}
    with pytest.raises(grpc.RpcError) as failed:
        unready.Create(provider_pb2.CreateRequest(urn=urn("kubernetes:apps/v1:Deployment", "a"), properties=struct(inputs)))
    assert (failed.value.code(), failed.value.details()) == (grpc.StatusCode.UNKNOWN, "'triton' timed out")
    sent = dict(failed.value.trailing_metadata())["grpc-status-details-bin"]
    detail = provider_pb2.ErrorResourceInitFailed()
    assert status_pb2.Status.FromString(sent).details[0].Unpack(detail)
    assert (detail.id, list(detail.reasons)) == ("triton/triton", ["'triton' timed out", "no nodes"])
    assert plain(detail.properties) == {**inputs, "status": {}}


def test_create_and_update_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """The resource's timeout option takes precedence over the annotation's."""
    seen: list[tuple[str, float]] = []

    def ready(client: object, path: str, live: dict[str, Any], timeout: float, cancelled: object) -> dict[str, Any]:
        seen.append((path, timeout))
        return live

    monkeypatch.setattr(awaiting, "ready", ready)
    monkeypatch.setattr(KubeObjects, "_served", lambda self, inputs: SERVED)
    monkeypatch.setattr(KubeObjects, "_apply", lambda self, served, id, inputs: inputs)

    class Nothing:
        def find(self, path: str) -> None: ...

    objects = KubeObjects(cast(KubeClient, Nothing()), EngineLog("127.0.0.1:1"), threading.Event(), namespace="default")
    resource = Resource("urn", "kubernetes:apps/v1:Deployment", "triton", "triton/triton")
    objects.create(resource, deployment(), 5)
    objects.update(resource, {}, deployment(), 7)
    assert seen == [(PATH, 5), (PATH, 7)]


class SERVED:
    path = staticmethod(lambda namespace, name: f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
