"""A fleet without pods behind a gateway: one request starts the first pod, and a client that retries gets an answer."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest

from spec.names import TRITON_DEPLOYMENT, TRITON_NAMESPACE
from spec.prometheus.gateway import without_a_pod
from tests.system.e2e import gateway_twin
from tests.system.e2e.conftest import UP_SECONDS, taken_down
from tests.system.e2e.gateway_load import BODY, infer_path
from tests.system.e2e.gateway_twin import Gateway, until
from tests.system.e2e.monitored import Monitored
from twin.cluster.kube_api import object_path
from twin.host import processes
from twin.host.home import TwinHome

# KEDA's operator and Prometheus's may have to be built first.
pytestmark = pytest.mark.timeout(5400)
_SECONDS = 300.0
"""The longest time until the last pod is gone (KEDA waits a minute without requests), and until the first pod answers."""


def test_one_request_at_the_gateway_starts_the_first_pod_and_who_asks_again_is_answered(tmp_path: Path) -> None:
    with taken_down(Monitored(TwinHome(tmp_path / "home"))) as twin:
        # At the end of `up` Triton answers once, so it has a pod then.
        up = twin.run("up", "--autoscaling", "--gateway", seconds=2 * UP_SECONDS)
        assert up.returncode == 0, up.stdout[-4000:]
        twin.pin("triton-eks:autoscaling.minReplicas", 0)
        changed = twin.run("pulumi", "up", "--yes", "--skip-preview", "--stack", "local")
        assert changed.returncode == 0, changed.stdout[-4000:]
        gateway = gateway_twin.ready(twin)
        until(lambda: wanted(gateway) == 0, "the last pod to go", _SECONDS)
        until(lambda: all(gateway.answers_itself()), "every Envoy to know that")
        # An increase takes two scrapes, and the Envoys are as new as the `up`.
        until(lambda: twin.query(without_a_pod()), "Prometheus to count the answers of these Envoys", _SECONDS)
        assert twin.query(without_a_pod())[0]["value"][1] == "0"

        begun = time.monotonic()
        first = ask(gateway)
        assert (first.status_code, first.headers["retry-after"]) == (503, "15")
        until(lambda: wanted(gateway) == 1, "this one request to start a pod", _SECONDS)
        asked_for = time.monotonic() - begun
        seconds = int(first.headers["retry-after"])
        processes.wait_until(
            lambda: ask(gateway).status_code == 200, "who asks again to be answered", _SECONDS, poll=seconds
        )
        print(
            f"a pod was asked for after {asked_for:.0f} s, and the first answer came after {time.monotonic() - begun:.0f} s"
        )
        assert wanted(gateway) == 1


def ask(gateway: Gateway) -> httpx.Response:
    """Send one request without retry."""
    return httpx.post(f"http://{gateway.http}{infer_path()}", json=BODY, trust_env=False)


def wanted(gateway: Gateway) -> int:
    """Return the desired number of Triton's pods."""
    found: int = gateway.kube.get(object_path("apps/v1", "deployments", TRITON_NAMESPACE, TRITON_DEPLOYMENT))["spec"][
        "replicas"
    ]
    return found
