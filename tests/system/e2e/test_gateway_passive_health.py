"""Envoy ejects a ready pod for a while if it answers all requests of a model with an error."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spec.names import TRITON_NAMESPACE
from tests.system.e2e.gateway_load import ANSWERED, MODEL, load, over_http
from tests.system.e2e.gateway_twin import Gateway, ending, listens, until
from twin.cluster.kube_api import object_path

EJECTED = "envoy_cluster_outlier_detection_ejections_active"


@contextmanager
def stuck(gateway: Gateway, pod: dict[str, Any]) -> Iterator[None]:
    """Suspend the model processes of one pod while its server continues; then replace the pod.

    The server then answers each request with 500: "Stub process … is not healthy".
    """
    backends = [child for child in children(gateway.process(pod, "triton")) if b"backend_stub" in cmdline(child)]
    assert backends, "the server has a process for each model"
    for pid in backends:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in backends:
            with contextlib.suppress(ProcessLookupError):  # the server kills one that it considers dead
                os.kill(pid, signal.SIGCONT)
        gateway.kube.delete(object_path("v1", "pods", TRITON_NAMESPACE, pod["metadata"]["name"]))
        cluster = gateway.twin.servers().cluster()
        until(lambda: not ending(gateway, TRITON_NAMESPACE) and len(gateway.tritons()) == 2, "another pod", 180)
        until(lambda: cluster.rolled_out(TRITON_NAMESPACE, "triton"), "the new pod to be ready", 180)


def children(pid: int) -> list[int]:
    """Return the child processes of all threads of a process, and their children."""
    found = [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    return [*found, *(further for child in found for further in children(child))]


def cmdline(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def ready(gateway: Gateway, name: str) -> bool:
    status = gateway.kube.get(object_path("v1", "pods", TRITON_NAMESPACE, name))["status"]
    return any(one["type"] == "Ready" and one["status"] == "True" for one in status["conditions"])


def test_a_ready_pod_whose_model_is_stuck_is_left_out(gateway: Gateway) -> None:
    pods = gateway.tritons()
    assert len(pods) == 2
    name = pods[0]["metadata"]["name"]
    envoy = f"{listens(gateway.envoys()[0])}:8000"
    assert gateway.counted(EJECTED, f"httproute/triton/{MODEL}/rule/0") == 0
    with stuck(gateway, pods[0]):
        with load(*[over_http(envoy, reused=True) for _ in range(12)], rate=8) as account:
            until(lambda: gateway.counted(EJECTED, f"httproute/triton/{MODEL}/rule/0") == 1, "the pod to be left out", 180)
        assert account.answered < account.sent, "the pod failed requests before it was left out"
        assert ready(gateway, name), "for Kubernetes it is as good as any"
        ask = over_http(envoy, reused=True)
        assert [ask() for _ in range(30)] == [ANSWERED] * 30
