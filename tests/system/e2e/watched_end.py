"""Watches the deletion of Triton: the outcomes of clients that use its Service, and the remaining objects."""

from __future__ import annotations

import threading
from collections import Counter
from types import TracebackType

import httpx

from spec.names import TRITON_HTTP_PORT, TRITON_NAMESPACE, TRITON_RELEASE
from twin.cluster.kube_api import object_path
from twin.cluster.kube_errors import KubeError
from twin.cluster.pod_addresses import loopback
from twin.cluster.view import ClusterView
from twin.commands.inference import FEATURES, MODEL

_CLIENTS = 2
_BODY = {"inputs": [{"name": "FEATURES", "shape": [1, 4], "datatype": "FP32", "data": FEATURES[0]}]}
_NEEDED = {
    "the Service": object_path("v1", "services", TRITON_NAMESPACE, TRITON_RELEASE),
    "the service account": object_path("v1", "serviceaccounts", TRITON_NAMESPACE, TRITON_RELEASE),
    "the NetworkPolicy": object_path("networking.k8s.io/v1", "networkpolicies", TRITON_NAMESPACE, TRITON_RELEASE),
}


class WatchedEnd:
    """Sends requests to Triton without pause and retry during a block, each over a new connection.

    `outcomes`: number of requests by outcome: "answered", "shed" (it queued longer than its SLO allows, as on a busy
    machine: docs/facts/triton-server.md#queues), or the error. `missed`: objects of Triton that were gone while one of its
    pods existed. `drained`: a deleted pod was seen while it still existed.
    """

    def __init__(self, cluster: ClusterView) -> None:
        self.outcomes: Counter[str] = Counter()
        self.missed: set[str] = set()
        self.drained = False
        self._cluster = cluster
        self._addresses: list[str] = []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._look, *[self._ask] * _CLIENTS)]

    def __enter__(self) -> WatchedEnd:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.05):
            try:
                self._addresses = [loopback(ip) for ip in self._cluster.service_addresses(TRITON_NAMESPACE, TRITON_RELEASE)]
                # In this order: an object that is missing while a pod exists afterwards was deleted before the pod.
                gone = {what for what, path in _NEEDED.items() if self._cluster.client.find(path) is None}
                pods = [pod for pod in self._cluster.pods() if pod.namespace == TRITON_NAMESPACE]
            except KubeError:
                continue  # a busy API server; the next look is soon
            self.drained = self.drained or any(pod.ending for pod in pods)
            if pods:
                self.missed |= gone

    def _ask(self) -> None:
        with httpx.Client(timeout=30, trust_env=False, headers={"Connection": "close"}) as client:
            while not self._over.wait(0.02):
                for address in self._addresses:
                    self.outcomes[_answer(client, address)] += 1


def _answer(client: httpx.Client, address: str) -> str:
    try:
        answer = client.post(f"http://{address}:{TRITON_HTTP_PORT}/v2/models/{MODEL}/infer", json=_BODY)
    except httpx.HTTPError as error:
        return f"{type(error).__name__}: {error}"
    if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE and "Request timeout expired" in answer.text:
        return "shed"
    return "answered" if answer.status_code == httpx.codes.OK else f"{answer.status_code}: {answer.text}"
