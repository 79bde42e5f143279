"""Clients while no pod exists: the responses, and Envoy's counters, with all objects from Envoy Gateway."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from spec.names import TRITON_DEPLOYMENT, TRITON_NAMESPACE
from spec.prometheus.gateway import without_a_pod
from tests.system.e2e.gateway_load import ANSWERED, BODY, infer_path, over_grpc, over_http
from tests.system.e2e.gateway_twin import Gateway, until


def counted(gateway: Gateway) -> float:
    """Return the sum of the program's query in every Envoy: for each listener, even before its first request."""
    query = re.search(r'\((?P<name>envoy_\w+)\{.*envoy_http_conn_manager_prefix=~"(?P<prefix>[^"]+)"', without_a_pod())
    assert query is not None
    series = re.findall(
        rf'^{query["name"]}{{envoy_http_conn_manager_prefix="({query["prefix"]})"}} (\S+)$', gateway.scrape(), re.MULTILINE
    )
    # An Envoy that also had TLS listeners keeps their counters after they are removed.
    listeners, envoys = Counter(name for name, _ in series), len(gateway.envoys())
    assert listeners >= Counter({"http-8000": envoys, "http-8001": envoys}), "one of each listener of each Envoy"
    return sum(float(value) for _, value in series)


@contextmanager
def no_pods(gateway: Gateway) -> Iterator[None]:
    """Remove all Triton pods during the block, as every Envoy knows; then restore their number."""
    scale = f"scale deployment {TRITON_DEPLOYMENT} --namespace {TRITON_NAMESPACE} --replicas"
    pods = len(gateway.tritons())
    gateway.twin.kubectl(f"{scale} 0")
    try:
        until(lambda: all(gateway.answers_itself()), "every Envoy to know that no pod is there")
        yield
    finally:
        gateway.twin.kubectl(f"{scale} {pods}")
        until(
            lambda: gateway.twin.servers().cluster().rolled_out(TRITON_NAMESPACE, TRITON_DEPLOYMENT),
            "the pods to be back",
            180,
        )
        # Without a request: Envoy counts its own answers.
        until(lambda: not any(gateway.answers_itself()), "every Envoy to know the pods")
        until(lambda: over_http(gateway.http, reused=False)() == ANSWERED, "the gateway to answer")


def test_a_request_without_a_pod_is_to_be_sent_again_and_is_the_only_kind_that_is_counted(gateway: Gateway) -> None:
    url = f"http://{gateway.http}{infer_path()}"
    with gateway.routed(gateway.model(woken=True)):
        before = counted(gateway)
        assert over_http(gateway.http, reused=False)() == ANSWERED
        assert over_grpc(gateway.grpc)() == ANSWERED
        with no_pods(gateway):
            assert httpx.post(f"http://{gateway.http}{infer_path('other')}", json=BODY, trust_env=False).status_code == 404
            assert counted(gateway) == before

            answer = httpx.post(url, json=BODY, trust_env=False)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "15")
            assert answer.json() == {"error": "no pod answers for this model yet; ask again"}
            assert counted(gateway) == before + 1
            assert over_grpc(gateway.grpc)().startswith("StatusCode.UNAVAILABLE")
            assert counted(gateway) == before + 2
        assert over_http(gateway.http, reused=False)() == ANSWERED
        assert counted(gateway) == before + 2
