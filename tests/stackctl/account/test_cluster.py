"""The cluster's API when another server answers in its place."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from kubernetes import client

from stackctl.account.cluster import Cluster, ClusterUnusable

ASKED: dict[str, Callable[[Cluster], Any]] = {
    "the role": lambda cluster: cluster.require_role("arn:aws:iam::123456789012:role/triton"),
    "the rollout": Cluster.rolled_out,
    "the pods": Cluster.pods,
    "the gateway": Cluster.gateway_address,
    "the nodes": lambda cluster: cluster.objects("/api/v1/nodes"),
    "the events of a pod": lambda cluster: cluster.autoscaler_event("a"),
}
ANSWERS = {
    "a login page": b"<html><body>Sign in</body></html>",
    "nothing": b"",
    "no text": b"\xff\xfe\x00",
    "half of it": b'{"kind": "PodList", "items": [{"metadata"',
    "a list": b"[1, 2]",
    "a number": b"1",
    "null": b"null",
    "an object without anything": b"{}",
    "another form": b'{"items": 3, "metadata": [], "spec": "a", "status": "b"}',
    "objects without names": b'{"items": [{"metadata": {}}], "metadata": {"continue": ""}, "spec": [], "status": 1}',
    "objects of another form": b'{"items": [{"metadata": {"name": "n"}, "spec": 3}], "spec": 3, "status": [4]}',
    "null within": b'{"items": [null], "metadata": null, "spec": null, "status": {"addresses": [1]}}',
}


@contextmanager
def answering(content: bytes) -> Iterator[Cluster]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield Cluster(client.ApiClient(client.Configuration(host=f"http://127.0.0.1:{server.server_port}")))
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("asked", ASKED)
def test_an_answer_that_is_none_of_an_api_server_is_a_sentence(asked: str, answer: str) -> None:
    with answering(ANSWERS[answer]) as cluster, pytest.raises(ClusterUnusable) as told:
        ASKED[asked](cluster)
    assert "http://127.0.0.1:" in str(told.value) and "\n" not in str(told.value)


@pytest.mark.parametrize("pods", [b"{}", b'{"metadata": {"name": "a"}}', b"null"])
def test_a_list_of_pods_that_are_none_is_a_sentence(pods: bytes) -> None:
    with answering(b'{"items": [' + pods + b"]}") as cluster, pytest.raises(ClusterUnusable, match="is no API server"):
        cluster.pods()


@pytest.mark.parametrize(
    "part",
    [
        {"metadata": {"name": "a", "labels": {"pool": 1}}},
        {"spec": {"replicas": "2"}},
        {"spec": {"replicas": True}},
        {"spec": {"scaleTargetRef": "triton"}},
        {"spec": {"type": ["LoadBalancer"]}},
        {"status": {"readyReplicas": "2"}},
        {"status": {"expectedPods": "2"}},
        {"status": {"addresses": {"value": "a"}}},
        {"status": {"loadBalancer": []}},
        {"status": {"loadBalancer": {"ingress": ["a"]}}},
        {"status": {"conditions": [{"status": "True"}]}},
        {"status": {"conditions": [{"type": "Ready"}]}},
        {"status": {"containerStatuses": [{"name": "a", "restartCount": "0"}]}},
        {"status": {"containerStatuses": [{"restartCount": 0}]}},
        *(
            part
            for time in (5, "", "x", "2026-99-01T00:00:00Z", "2026-11-23T10:00:00")
            for part in (
                {"metadata": {"name": "a", "creationTimestamp": time}},
                {"metadata": {"name": "a", "deletionTimestamp": time}},
                {"status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": time}]}},
                {"status": {"containerStatuses": [{"name": "a", "state": {"running": {"startedAt": time}}}]}},
            )
        ),
        {"status": {"containerStatuses": [{"name": "a", "state": "running"}]}},
        {"status": {"containerStatuses": [{"name": "a", "state": {"running": "now"}}]}},
    ],
    ids=str,
)
def test_an_object_whose_part_is_of_another_type_is_none_of_an_api_server(part: dict[str, Any]) -> None:
    listed = json.dumps({"items": [{"metadata": {"name": "a"}, **part}]}).encode()
    with answering(listed) as cluster, pytest.raises(ClusterUnusable, match="is no API server"):
        cluster.objects("/api/v1/nodes")


def test_an_object_of_a_list_has_a_spec_and_a_status_and_nothing_that_is_null() -> None:
    listed = b'{"items": [{"metadata": {"name": "a", "labels": null}, "spec": {"taints": [{"value": null}]}}]}'
    with answering(listed) as cluster:
        assert cluster.objects("/api/v1/nodes") == [{"metadata": {"name": "a"}, "spec": {"taints": [{}]}, "status": {}}]


def test_a_log_that_is_no_text_has_no_last_lines() -> None:
    with answering(b"loading\n\xff\xfe\n") as cluster:
        assert cluster.last_lines("triton-0") == []


def event(reason: str, by: str, second: int, **more: Any) -> dict[str, Any]:
    """Return an event as the API server writes it; cluster-autoscaler's and Karpenter's have a count."""
    at = f"2026-11-27T10:00:{second:02}Z"
    metadata = {"name": f"{reason}-{second}", "namespace": "triton", "creationTimestamp": at}
    named = {"involvedObject": {"kind": "Pod", "name": "a"}, "metadata": metadata, "reason": reason}
    return {**named, "message": f"{reason} says {by}", "source": {"component": by}, "lastTimestamp": at, **more}


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([], None),
        ([event("FailedScheduling", "default-scheduler", 1)], None),
        ([event("FailedScheduling", "karpenter", 1)], (False, "karpenter: FailedScheduling says karpenter")),
        (
            [event("FailedScheduling", "karpenter", 1), event("Nominated", "karpenter", 2)],
            (True, "karpenter: Nominated says karpenter"),
        ),
        (
            [event("TriggeredScaleUp", "cluster-autoscaler", 1), event("NotTriggerScaleUp", "cluster-autoscaler", 2)],
            (False, "cluster-autoscaler: NotTriggerScaleUp says cluster-autoscaler"),
        ),
        (
            [
                event("Nominated", "", 3, source={}, reportingComponent="karpenter", lastTimestamp=None),
                event("FailedScheduling", "karpenter", 1),
            ],
            (True, "karpenter: Nominated says"),
        ),
    ],
    ids=["none", "the scheduler's", "a refusal", "a promise", "a promise taken back", "by the newer API"],
)
def test_the_newest_event_of_an_autoscaler_counts(events: list[dict[str, Any]], said: tuple[bool, str] | None) -> None:
    with answering(json.dumps({"kind": "EventList", "metadata": {}, "items": events}).encode()) as cluster:
        found = cluster.autoscaler_event("a")
    assert (None if found is None else (found.promise, found.text)) == said
