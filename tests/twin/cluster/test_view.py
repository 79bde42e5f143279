"""The cluster as shown to users; a fake API returns a real server's recorded answers."""

from typing import Any, cast

import pytest

from twin.cluster.kube_api import KubeClient, Object
from twin.cluster.view import ClusterView


class Api:
    """Lists by path. `deleted` has the deletions, and `selections` the selectors of lists."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {name.replace("_", "/"): answer for name, answer in answers.items()}
        self.deleted: list[str] = []
        self.selections: list[dict[str, str]] = []

    def get(self, path: str, **selection: str) -> Object:
        self.selections.append(selection)
        return {"items": self.answers[path.rpartition("/")[2]]}

    def find(self, path: str) -> Object | None:
        found: Object | None = self.answers[path.rpartition("/")[2]]
        return found

    def delete(self, path: str) -> None:
        self.deleted.append(path)


def view(api: Api) -> ClusterView:
    return ClusterView(cast(KubeClient, api))


@pytest.mark.parametrize(
    ("generation", "observed", "updated", "available", "done"),
    [(3, 3, 2, 2, True), (3, 2, 2, 2, False), (3, 3, 1, 2, False), (3, 3, 2, 1, False)],
)
def test_a_deployment_is_rolled_out_when_all_replicas_are_of_the_newest_revision_and_available(
    generation: int, observed: int, updated: int, available: int, done: bool
) -> None:
    status = {"observedGeneration": observed, "replicas": 2, "updatedReplicas": updated, "availableReplicas": available}
    found = {"metadata": {"name": "triton", "generation": generation}, "spec": {"replicas": 2}, "status": status}
    assert view(Api(triton=found)).rolled_out("triton", "triton") is done


def test_a_deployment_that_does_not_exist_is_not_rolled_out() -> None:
    assert view(Api(triton=None)).rolled_out("triton", "triton") is False


@pytest.mark.parametrize(("found", "pods"), [(None, 0), ({"spec": {"replicas": 0}}, 0), ({"spec": {"replicas": 3}}, 3)])
def test_the_pods_that_a_deployment_is_to_have(found: dict[str, Any] | None, pods: int) -> None:
    assert view(Api(triton=found)).wanted("triton", "triton") == pods


def test_only_ready_addresses_count_sorted_and_once() -> None:
    endpoints = [
        {"addresses": ["10.244.1.2"], "conditions": {"ready": True}},
        {"addresses": ["10.244.1.1"], "conditions": {"ready": True}},
        {"addresses": ["10.244.1.1"], "conditions": {"ready": True}},
        {"addresses": ["10.244.1.3"], "conditions": {"ready": False}},
    ]
    api = Api(endpointslices=[{"endpoints": endpoints}, {"endpoints": None}])
    assert view(api).service_addresses("triton", "triton") == ["10.244.1.1", "10.244.1.2"]
    assert api.selections == [{"labelSelector": "kubernetes.io/service-name=triton"}]


def test_a_pods_warnings_are_its_reasons_and_messages_oldest_first() -> None:
    events = [
        {"reason": "BackOff", "message": "again", "lastTimestamp": "2026-11-21T19:00:02Z"},
        {
            "reason": "Unhealthy",
            "message": "Startup probe failed: 400\nnot ready\n",
            "lastTimestamp": "2026-11-21T19:00:01Z",
        },
        {"reason": "FailedScheduling", "message": "0/2 nodes", "lastTimestamp": None},
    ]
    api = Api(events=events)
    assert view(api).warnings("triton", "triton-1") == [
        "FailedScheduling: 0/2 nodes",
        "Unhealthy: Startup probe failed: 400 not ready",
        "BackOff: again",
    ]
    assert api.selections == [{"fieldSelector": "type=Warning,involvedObject.name=triton-1"}]


def test_unready_pods_are_deleted_and_no_others() -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    api = Api(
        pods=[
            {"metadata": {"namespace": space, "name": name, "uid": name, **extra}, "spec": {}, "status": status}
            for space, name, status, extra in [
                ("triton", "serves", ready, {}),
                ("triton", "loads", {}, {}),
                ("triton", "ends", {}, {"deletionTimestamp": "2026-11-21T19:00:00Z"}),
                ("other", "waits", {}, {}),
            ]
        ]
    )
    view(api).delete_unready_pods("triton")
    assert api.deleted == ["/api/v1/namespaces/triton/pods/loads"]


def test_the_nodes_are_those_of_node_groups() -> None:
    api = Api(nodes=[{"metadata": {"name": "b"}}, {"metadata": {"name": "a"}}])
    assert view(api).nodes() == ["a", "b"]
    assert api.selections == [{"labelSelector": "eks.amazonaws.com/nodegroup"}]


def pod(status: dict[str, Any], **metadata: str) -> Api:
    names = {"namespace": "triton", "name": "triton-1", "uid": "u", **metadata}
    return Api(pods=[{"metadata": names, "spec": {"nodeName": "n"}, "status": status}])


@pytest.mark.parametrize(
    ("address", "listens"),
    [("10.244.128.2", "127.244.128.2"), ("10.244.3.2", ""), ("", "")],
    ids=["here", "kwok's", "none yet"],
)
def test_a_pod_that_runs_here_says_where_it_listens_and_others_do_not(address: str, listens: str) -> None:
    status = {"phase": "Running", "podIP": address, "conditions": [{"type": "Ready", "status": "True"}]}
    (found,) = view(pod(status)).pods()
    assert (found.address, found.listens, found.status, found.ready) == (address, listens, "Running", True)


@pytest.mark.parametrize(
    ("state", "metadata", "shown"),
    [
        ({"waiting": {"reason": "CrashLoopBackOff"}}, {}, "CrashLoopBackOff"),
        ({"running": {}}, {}, "Running"),
        ({"waiting": {"reason": "CrashLoopBackOff"}}, {"deletionTimestamp": "2026-11-21T19:00:00Z"}, "Terminating"),
    ],
)
def test_the_status_is_the_one_that_kubectl_shows(state: dict[str, Any], metadata: dict[str, str], shown: str) -> None:
    status = {"phase": "Running", "containerStatuses": [{"name": "c", "state": state, "restartCount": 3}]}
    (found,) = view(pod(status, **metadata)).pods()
    assert (found.status, found.restarts, found.ready) == (shown, 3, False)
