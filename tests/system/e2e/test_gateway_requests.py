"""Requests through the program's gateway on the real Envoy Gateway and Envoy: accepted and refused ones."""

from __future__ import annotations

import json
import math
import os
import signal
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from examples.gateway import headers
from infra.platform import gateway as platform
from infra.serving.routed_model import RoutedModel
from spec.names import GATEWAY_NAMESPACE, TRITON_NAMESPACE, TRITON_SERVICE
from spec.settings.serving import Sequence
from tests.system.e2e.gateway_load import ANSWERED, BODY, MODEL, Account, infer_path, load, over_grpc, over_http, tensors
from tests.system.e2e.gateway_twin import Gateway, age, listens, served, until, within_chance
from tests.system.e2e.sockets import listening
from twin.cluster import certificates
from twin.cluster.certificates import Pki
from twin.cluster.kube_api import object_path
from twin.host import processes

READ_ONLY = (
    "/v2",
    "/v2/health/live",
    "/v2/health/ready",
    "/v2/models/classify",
    "/v2/models/classify/config",
    "/v2/models/classify/ready",
)
CLOSED = (
    "/metrics",
    "/v2/repository/index",
    "/v2/repository/models/classify/load",
    "/v2/repository/models/classify/unload",
    "/v2/models/stats",
    "/v2/models/classify/stats",
    "/v2/models/classify/trace/setting",
    "/v2/trace/setting",
    "/v2/logging",
    "/v2/systemsharedmemory/region/x/register",
    "/v2/cudasharedmemory/status",
    "/v2/models/classify/infer/../../../repository/index",
    "/v2/models/classify/%2e%2e/stats",
    "/v2/models/classify%2Fstats",
    "/v2/models/classify%2Fconfig",
    "/v2/models/classify/generate",
    "/v2/models/other/infer",
)


def test_the_controller_accepts_everything_that_the_program_makes(gateway: Gateway) -> None:
    refused = []
    for api, plural in (
        ("gateway.networking.k8s.io/v1", "gateways"),
        ("gateway.networking.k8s.io/v1", "httproutes"),
        ("gateway.networking.k8s.io/v1", "grpcroutes"),
        ("gateway.envoyproxy.io/v1alpha1", "clienttrafficpolicies"),
        ("gateway.envoyproxy.io/v1alpha1", "backendtrafficpolicies"),
    ):
        items = gateway.kube.get(object_path(api, plural))["items"]
        assert items, plural
        for item in items:
            status = item["status"]
            parts = [*status.get("parents", []), *status.get("ancestors", []), *([status] if "conditions" in status else [])]
            assert parts, f"nothing is said of {item['kind']} {item['metadata']['name']}"
            conditions = [one for part in parts for one in part["conditions"]]
            refused += [(item["kind"], item["metadata"]["name"], one) for one in conditions if one["status"] != "True"]
    assert refused == []


def test_the_status_says_where_to_ask(gateway: Gateway) -> None:
    endpoints = json.loads(gateway.twin.run("status", "--json").stdout)["endpoints"]
    assert endpoints[f"load balancer of {GATEWAY_NAMESPACE}"] == f"{gateway.http} {gateway.grpc}"


def test_controller_envoys_and_what_drains_them_listen_on_loopback_alone(gateway: Gateway) -> None:
    controller = processes.find(gateway.twin.home, "envoy-gateway")
    assert controller is not None
    found = {"controller": {address.rpartition(":")[0] for address in listening(controller.pid)}}
    for pod in gateway.envoys():
        for container in ("envoy", "shutdown-manager"):
            pid = gateway.process(pod, container)
            found[f"{container} at {listens(pod)}"] = {address.rpartition(":")[0] for address in listening(pid)}
    for who, addresses in found.items():
        own = who.partition(" at ")[2] or gateway.address
        # In the format of /proc: the bytes in the machine's order.
        assert addresses == {"".join(f"{int(byte):02X}" for byte in reversed(own.split(".")))}, who


def test_only_inference_and_read_only_calls_pass_over_http(gateway: Gateway) -> None:
    found = {}
    for path in (*READ_ONLY, *CLOSED):
        for method in ("GET", "POST"):
            # Unchanged: httpx would remove the dots.
            said = subprocess.run(
                ["curl", "-s", "-o", "-", "-w", "\n%{http_code}", "--path-as-is", "-X", method, f"{gateway.http}{path}"],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            found[method, path] = said.splitlines()[-1]
    assert {key: code for key, code in found.items() if code not in ("404", "400")} == {
        ("GET", path): "200" for path in READ_ONLY
    }
    for path in (infer_path(), f"/v2/models/{MODEL}/versions/1/infer"):
        assert httpx.post(f"http://{gateway.http}{path}", json=BODY, trust_env=False).status_code == 200
    assert httpx.get(f"http://{gateway.http}{infer_path()}", trust_env=False).status_code == 404


def test_a_request_that_names_an_unknown_model_in_the_header_is_refused_by_triton(gateway: Gateway) -> None:
    client = triton.InferenceServerClient(gateway.grpc)
    assert client.infer(MODEL, tensors(), headers=headers(MODEL)).as_numpy("CLASS").shape == (1, 1)
    with pytest.raises(InferenceServerException, match="unknown model"):
        client.infer("other", tensors(), headers=headers("other"))


def test_a_request_larger_than_what_is_buffered_passes(gateway: Gateway) -> None:
    body = json.dumps(BODY) + " " * (4 << 20)
    assert httpx.post(f"http://{gateway.http}{infer_path()}", content=body, trust_env=False).status_code == 200


def test_a_client_gone_wild_is_limited(gateway: Gateway) -> None:
    """Two requests a second are seven with the random variation; one Envoy counts for one route.

    The first of the seven over HTTP may be the request that checks whether all pods are there.
    """
    with gateway.routed(RoutedModel(MODEL, None, least_peak_rate=2)):
        envoy = listens(gateway.envoys()[0])
        url = f"http://{envoy}:8000{infer_path()}"

        def full() -> bool:
            said = httpx.post(url, json=BODY, trust_env=False).headers
            return said.get("x-ratelimit-limit") == "7" and said["x-ratelimit-remaining"] == "6"

        until(full, "the bucket to be full")
        asks = {"http": over_http(f"{envoy}:8000", reused=True), "grpc": over_grpc(f"{envoy}:8001")}
        for protocol, ask in asks.items():
            begun = time.monotonic()
            outcomes = [ask() for _ in range(50)]
            most = 7 * (math.floor(time.monotonic() - begun) + 2)
            answered = outcomes.count(ANSWERED)
            least = 6 if protocol == "http" else 7
            assert least <= answered <= most, f"{protocol}: {answered} in {time.monotonic() - begun:.1f} s"
            refusals = {outcome.partition(":")[0] for outcome in outcomes if outcome != ANSWERED}
            assert refusals == {"HTTP 429" if protocol == "http" else "StatusCode.UNAVAILABLE"}


def test_each_envoy_counts_a_model_once_over_http_and_once_over_grpc(gateway: Gateway) -> None:
    """However many paths and methods the model has: `clientRates` depends on it."""
    routes = {kind: f"{kind}route/{TRITON_NAMESPACE}/{MODEL}" for kind in ("grpc", "http")}
    with gateway.routed(gateway.model(decoupled=True)):
        for pod in gateway.envoys():
            url = f"http://{listens(pod)}:19000/config_dump?resource=dynamic_route_configs"
            hosts = [
                host
                for config in httpx.get(url, trust_env=False).json()["configs"]
                for host in config["route_config"].get("virtual_hosts", [])
            ]
            limited = [
                route["name"].partition("/rule/")[0]
                for host in hosts
                for route in host["routes"]
                if "envoy.filters.http.local_ratelimit" in route.get("typed_per_filter_config", {})
            ]
            assert sorted(name for name in limited if name in routes.values()) == sorted(routes.values())


def test_a_server_that_hangs_costs_a_request_its_time_and_is_not_asked_twice(gateway: Gateway) -> None:
    limit = gateway.serving().longest_request_seconds
    pids = [gateway.process(pod, "triton") for pod in gateway.tritons()]
    before = gateway.counted("envoy_cluster_upstream_rq_timeout"), gateway.counted("envoy_cluster_upstream_rq_retry")
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        begun = time.monotonic()
        answer = httpx.post(f"http://{gateway.http}{infer_path()}", json=BODY, trust_env=False, timeout=30)
        took = time.monotonic() - begun
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    assert answer.status_code == 504
    assert limit <= took < limit + 5
    assert gateway.counted("envoy_cluster_upstream_rq_timeout") - before[0] == 1
    assert gateway.counted("envoy_cluster_upstream_rq_retry") - before[1] == 0
    until(lambda: over_http(gateway.http, reused=False)() == ANSWERED, "the servers to answer again")


@contextmanager
def second_service(gateway: Gateway, name: str) -> Iterator[list[dict[str, Any]]]:
    """Start a second Triton with a separate Service, as a second installation of the chart does. Return its pods."""
    deployment = gateway.kube.get(object_path("apps/v1", "deployments", TRITON_NAMESPACE, "triton"))
    labels = {"app": name}
    template = deployment["spec"]["template"]
    spec = {
        **deployment["spec"],
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {**template, "metadata": {**template["metadata"], "labels": labels}},
    }
    metadata = {"name": name, "namespace": TRITON_NAMESPACE}
    gateway.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
    own = gateway.kube.get(object_path("v1", "services", TRITON_NAMESPACE, TRITON_SERVICE))["spec"]["ports"]
    ports = [{key: port[key] for key in ("name", "port", "targetPort")} for port in own]
    service = {"selector": labels, "ports": ports}
    gateway.apply({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service})
    try:
        until(lambda: gateway.twin.servers().cluster().rolled_out(TRITON_NAMESPACE, name), f"{name} to be there", 120)
        yield gateway.tritons(f"{name}-")
    finally:
        gateway.kube.delete(object_path("v1", "services", TRITON_NAMESPACE, name))
        gateway.kube.delete(object_path("apps/v1", "deployments", TRITON_NAMESPACE, name))
        until(lambda: not gateway.tritons(f"{name}-"), f"{name} to be gone", 120)


def test_a_service_gets_its_share(gateway: Gateway) -> None:
    number, percent = 600, 20
    with (
        second_service(gateway, "other") as others,
        gateway.routed(gateway.model(services=((TRITON_SERVICE, 100 - percent), ("other", percent)))),
    ):
        for protocol, ask in {"http": over_http(gateway.http, reused=False), "grpc": over_grpc(gateway.grpc)}.items():
            before = served([*others, *gateway.tritons()])
            with load(*[ask] * 4, rate=12) as account:
                _sent(account, number)
            assert account.answered == account.sent, account.outcomes
            after = served([*others, *gateway.tritons()])
            chosen = sum(after[pod["metadata"]["name"]] - before[pod["metadata"]["name"]] for pod in others)
            assert sum(after.values()) - sum(before.values()) == account.sent
            assert within_chance(chosen, account.sent, percent / 100), f"{protocol}: {chosen} of {account.sent}"


def _sent(account: Account, number: int) -> None:
    until(lambda: account.sent >= number, "the requests to be sent", 240)


def test_a_sequence_stays_on_one_pod(gateway: Gateway) -> None:
    with gateway.routed(gateway.model(gateway.serving(sequence=Sequence(strategy="oldest")))):
        pods, chosen = gateway.tritons(), []
        assert len(pods) == 2
        assert over_http(gateway.http, reused=False)().startswith("HTTP 404"), "a sequence has to be named"
        for number in range(12):
            before = served(pods)
            named = {"x-sequence-id": str(number)}
            asks = [over_http(f"{listens(envoy)}:8000", reused=True, named=named) for envoy in gateway.envoys()]
            outcomes = [ask() for _ in range(4) for ask in asks]
            assert outcomes == [ANSWERED] * 8, outcomes
            after = served(pods)
            shares = sorted(after[name] - before[name] for name in after)
            assert shares == [0, 8], f"sequence {number} was spread over pods: {shares}"
            chosen.append(next(name for name in after if after[name] != before[name]))
        assert len(set(chosen)) == 2, "every pod has sequences"


def test_a_stream_outlasts_the_time_of_a_request(gateway: Gateway) -> None:
    with gateway.routed(gateway.model(decoupled=True)):
        answers: list[Any] = []
        with triton.InferenceServerClient(gateway.grpc) as client:
            client.start_stream(lambda result, error: answers.append(error or result), headers=headers(MODEL))
            for _ in range(3):
                client.async_stream_infer(MODEL, tensors())
            until(lambda: len(answers) == 3, "the answers in the stream")
            age(gateway.serving().longest_request_seconds + 1)
            for _ in range(3):
                client.async_stream_infer(MODEL, tensors())
            until(lambda: len(answers) == 6, "the answers after a pause")
            client.stop_stream()
        failed = [str(answer) for answer in answers if isinstance(answer, InferenceServerException)]
        assert failed == []
        assert [answer.as_numpy("CLASS").shape for answer in answers] == [(1, 1)] * 6


def test_tls_ends_in_envoy(gateway: Gateway, tmp_path: Path) -> None:
    pki, name, host = Pki(gateway.twin.home.pki), "gateway-tls", "inference.example.com"
    certificates.ensure_mutual(pki, tmp_path, [host])
    data = {key: certificates.embedded(tmp_path / key) for key in ("tls.crt", "tls.key")}
    metadata = {"name": name, "namespace": GATEWAY_NAMESPACE}
    gateway.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls", "data": data})
    plain = gateway.settings().gateway
    assert plain is not None
    encrypted = plain.model_copy(update={"tls_secret": name})
    path = object_path("gateway.networking.k8s.io/v1", "gateways", GATEWAY_NAMESPACE, platform.GATEWAY)

    def listen(wanted: Any) -> None:
        with gateway.told():
            gateway.kube.patch(path, {"spec": platform.gateway_spec(wanted)}, kind="merge")

    listen(encrypted)
    try:
        envoy = listens(gateway.envoys()[0])
        context = ssl.create_default_context(cafile=str(pki.ca))

        def answers() -> bool:
            with httpx.Client(verify=context, trust_env=False, timeout=10) as client:
                try:
                    # Envoy uses ports above 10000 in place of ports below 1024, because they need no privileges.
                    url = f"https://{envoy}:10443{infer_path()}"
                    answer = client.post(url, json=BODY, extensions={"sni_hostname": host}, headers={"host": host})
                except httpx.HTTPError:
                    return False
                return answer.status_code == 200

        until(answers, "Envoy to answer over TLS")
        old = ssl.create_default_context(cafile=str(pki.ca))
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(httpx.HTTPError), httpx.Client(verify=old, trust_env=False) as client:
            client.post(f"https://{envoy}:10443{infer_path()}", json=BODY, extensions={"sni_hostname": host})
        options = [("grpc.ssl_target_name_override", host)]
        secure = {"ssl": True, "root_certificates": str(pki.ca), "channel_args": options}
        with triton.InferenceServerClient(f"{envoy}:8443", **secure) as client:
            assert client.infer(MODEL, tensors(), headers=headers(MODEL)).as_numpy("CLASS").shape == (1, 1)
    finally:
        listen(plain)
        gateway.kube.delete(object_path("v1", "secrets", GATEWAY_NAMESPACE, name))
    until(lambda: over_http(gateway.http, reused=False)() == ANSWERED, "the gateway to answer without TLS")
