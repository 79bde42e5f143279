"""The gateway as the program makes it, on the real Envoy Gateway and Envoy: what passes, what does not, and what ends."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from examples.gateway import headers
from infra.platform import gateway as platform
from infra.serving import routes
from infra.serving.routes import RoutedModel
from infra.serving.triton_values import read_drain
from spec.names import GATEWAY_NAMESPACE, TRITON_GRPC_PORT, TRITON_HTTP_PORT, TRITON_NAMESPACE, TRITON_SERVICE
from spec.prometheus import gateway as rules
from spec.settings import Settings, load_stack_file
from spec.settings.gateway import Canary
from spec.settings.serving import ModelServing, Sequence
from tests.system.e2e import gateway_clients, gateway_load, gateway_objects
from tests.system.e2e.conftest import UP_SECONDS, Twin
from tests.system.e2e.gateway_load import ANSWERED, BODY, MODEL, Account, infer_path, load, over_grpc, over_http, tensors
from tests.system.e2e.sockets import listening
from twin.cluster import certificates
from twin.cluster.certificates import Pki
from twin.cluster.kube_api import KubeClient, object_path
from twin.cluster.pod_addresses import loopback
from twin.host import processes
from twin.host.home import TwinHome

SECONDS = 60.0
"""How long a change may take from the API server to every Envoy, on a busy machine."""
NOT_INFERENCE = (
    "/metrics",
    "/v2",
    "/v2/health/live",
    "/v2/health/ready",
    "/v2/repository/index",
    "/v2/repository/models/classify/load",
    "/v2/repository/models/classify/unload",
    "/v2/models/stats",
    "/v2/models/classify",
    "/v2/models/classify/config",
    "/v2/models/classify/stats",
    "/v2/models/classify/ready",
    "/v2/models/classify/trace/setting",
    "/v2/trace/setting",
    "/v2/logging",
    "/v2/systemsharedmemory/region/x/register",
    "/v2/cudasharedmemory/status",
    "/v2/models/classify/infer/../../../repository/index",
    "/v2/models/classify/%2e%2e/classify/config",
    "/v2/models/classify%2Fconfig",
    "/v2/models/classify/generate",
    "/v2/models/other/infer",
)


@dataclass(frozen=True)
class Gateway:
    """A twin with a gateway; `address` is its load balancer's."""

    twin: Twin
    kube: KubeClient
    address: str

    @property
    def http(self) -> str:
        return f"{self.address}:{TRITON_HTTP_PORT}"

    @property
    def grpc(self) -> str:
        return f"{self.address}:{TRITON_GRPC_PORT}"

    def settings(self) -> Settings:
        return load_stack_file(self.twin.home.path / "project" / "stacks" / "Pulumi.local.yaml")

    def pods(self, namespace: str, name: str) -> list[dict[str, Any]]:
        """Pods whose names begin with `name` and that do not end, those with an address."""
        found = self.kube.get(object_path("v1", "pods", namespace))["items"]
        staying = [pod for pod in found if "deletionTimestamp" not in pod["metadata"] and "podIP" in pod["status"]]
        return [pod for pod in staying if pod["metadata"]["name"].startswith(name)]

    def envoys(self) -> list[dict[str, Any]]:
        return self.pods(GATEWAY_NAMESPACE, "envoy-")

    def tritons(self, name: str = "triton-") -> list[dict[str, Any]]:
        return self.pods(TRITON_NAMESPACE, name)

    def process(self, pod: Mapping[str, Any], container: str) -> int:
        """The process that a container of a pod is."""
        record = processes.find(self.twin.home, f"pod-{pod['metadata']['uid']}-{container}")
        assert record is not None
        return record.pid

    def counted(self, metric: str) -> float:
        """The sum of a metric over all Envoys, for the routes of MODEL."""
        text = "".join(
            httpx.get(f"http://{listens(pod)}:19001/stats/prometheus", trust_env=False).text for pod in self.envoys()
        )
        return sum(
            float(value) for value in re.findall(rf"^{metric}{{[^}}]*/triton/{MODEL}/[^}}]*}} (\S+)$", text, re.MULTILINE)
        )

    def apply(self, manifest: dict[str, Any]) -> None:
        gateway_objects.apply(self.kube, manifest)

    def generations(self) -> list[str]:
        """The clusters, endpoints, listeners and routes of each Envoy: another value after every change."""
        urls = [f"http://{listens(pod)}:19000/config_dump?include_eds" for pod in self.envoys()]
        # In an order of its own, which Envoy's maps have not.
        return [json.dumps(httpx.get(url, trust_env=False).json(), sort_keys=True) for url in urls]

    @contextmanager
    def routed(self, model: RoutedModel) -> Iterator[None]:
        """Have the routes and the policy that the program makes of `model` while the block lasts, then the stack's."""
        self._route(model)
        try:
            yield
        finally:
            self._route(self.model())

    def model(self, serving: ModelServing | None = None, canary: Canary | None = None, **more: Any) -> RoutedModel:
        """MODEL as the stack has it, or with other settings."""
        own = self.settings().models.serving[MODEL]
        return RoutedModel(MODEL, 1, serving or own, canary, **more)

    def serving(self, **changed: Any) -> ModelServing:
        return self.settings().models.serving[MODEL].model_copy(update=changed)

    def _route(self, model: RoutedModel) -> None:
        with self.told():
            for manifest in routes.manifests([model], read_drain("local", self.settings().models.serving)):
                self.apply(manifest)

    @contextmanager
    def told(self) -> Iterator[None]:
        """Wait after the changes of the block until every Envoy has been told of them, and does as it was told."""
        before = last = self.generations()
        yield

        def settled() -> bool:
            nonlocal last
            time.sleep(1)
            earlier, last = last, self.generations()
            changed = all(new != old for new, old in zip(last, before, strict=True))
            # For up to 15 s a cluster that has changed waits for endpoints, which have not and are not sent again.
            return last == earlier and changed and not any("dynamic_warming_clusters" in one for one in last)

        until(settled, "every Envoy to be told")


def listens(pod: Mapping[str, Any]) -> str:
    return loopback(pod["status"]["podIP"])


def until(holds: Callable[[], object], what: str, seconds: float = SECONDS) -> None:
    processes.wait_until(holds, what, seconds, poll=0.3)


def served(pods: list[dict[str, Any]]) -> dict[str, int]:
    """How many inferences of MODEL each pod of Triton has made since it started, by its name."""
    found = {}
    for pod in pods:
        answer = httpx.get(f"http://{listens(pod)}:{TRITON_HTTP_PORT}/v2/models/{MODEL}/stats", trust_env=False).json()
        found[pod["metadata"]["name"]] = sum(one["inference_count"] for one in answer["model_stats"])
    return found


def within_chance(chosen: int, of: int, share: float) -> bool:
    """Whether so many of so many are what a share gives, but for one run in 10,000 (3.9 standard deviations)."""
    return abs(chosen - of * share) <= 3.9 * math.sqrt(of * share * (1 - share))


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A twin that is up with a gateway. Tests leave it as they found it."""
    twin = Twin(TwinHome(tmp_path_factory.mktemp("gateway") / "home"))
    try:
        done = twin.run("up", "--gateway", seconds=UP_SECONDS)
        assert done.returncode == 0, done.stdout[-4000:]
        yield ready(twin)
    finally:
        twin.down()


def ready(twin: Twin) -> Gateway:
    """The gateway of a twin, once its load balancer answers."""
    kube = twin.servers().cluster().client
    services = kube.get(object_path("v1", "services", GATEWAY_NAMESPACE))["items"]
    address = next(ingress["ip"] for one in services for ingress in one["status"]["loadBalancer"]["ingress"])
    found = Gateway(twin, kube, address)
    until(lambda: over_http(found.http, reused=False)() == ANSWERED, "the gateway to answer")
    return found


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
        # As /proc has it: the bytes in the order of the machine.
        assert addresses == {"".join(f"{int(byte):02X}" for byte in reversed(own.split(".")))}, who


def test_only_inference_passes_over_http(gateway: Gateway) -> None:
    found = {}
    for path in NOT_INFERENCE:
        for method in ("GET", "POST"):
            # As it is: httpx would take the dots out.
            said = subprocess.run(
                ["curl", "-s", "-o", "-", "-w", "\n%{http_code}", "--path-as-is", "-X", method, f"{gateway.http}{path}"],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            found[method, path] = said.splitlines()[-1]
    assert {key: code for key, code in found.items() if code not in ("404", "400")} == {}
    for path in (infer_path(), f"/v2/models/{MODEL}/versions/1/infer"):
        assert httpx.post(f"http://{gateway.http}{path}", json=BODY, trust_env=False).status_code == 200
    assert httpx.get(f"http://{gateway.http}{infer_path()}", trust_env=False).status_code == 404


def test_only_inference_passes_over_grpc(gateway: Gateway) -> None:
    client, named = triton.InferenceServerClient(gateway.grpc), headers(MODEL)
    answer = client.infer(MODEL, tensors(), headers=named).as_numpy("CLASS")
    assert answer.shape == (1, 1)
    calls: dict[str, Callable[[], Any]] = {
        "no header": lambda: client.infer(MODEL, tensors()),
        "another model": lambda: client.infer(MODEL, tensors(), headers=headers("other")),
        "live": lambda: client.is_server_live(headers=named),
        "metadata": lambda: client.get_model_metadata(MODEL, headers=named),
        "config": lambda: client.get_model_config(MODEL, headers=named),
        "statistics": lambda: client.get_inference_statistics(MODEL, headers=named),
        "repository": lambda: client.get_model_repository_index(headers=named),
        "unload": lambda: client.unload_model(MODEL, headers=named),
        "logging": lambda: client.get_log_settings(headers=named),
        "trace": lambda: client.get_trace_settings(headers=named),
        "shared memory": lambda: client.get_system_shared_memory_status(headers=named),
    }
    found = {}
    for name, call in calls.items():
        with pytest.raises(InferenceServerException) as refused:
            call()
        found[name] = refused.value.status()
    assert found == dict.fromkeys(calls, "StatusCode.UNIMPLEMENTED")


def test_a_request_larger_than_what_is_buffered_passes(gateway: Gateway) -> None:
    body = json.dumps(BODY) + " " * (4 << 20)
    assert httpx.post(f"http://{gateway.http}{infer_path()}", content=body, trust_env=False).status_code == 200


def test_a_client_gone_wild_is_limited(gateway: Gateway) -> None:
    """Two requests a second are seven with what chance adds; one Envoy counts for one route."""
    with gateway.routed(RoutedModel(MODEL, 1, None, None, least_peak_rate=2)):
        envoy = listens(gateway.envoys()[0])
        time.sleep(2)  # the bucket fills: it has no sign from outside
        asks = {"http": over_http(f"{envoy}:8000", reused=True), "grpc": over_grpc(f"{envoy}:8001")}
        for protocol, ask in asks.items():
            begun = time.monotonic()
            outcomes = [ask() for _ in range(50)]
            most = 7 * (math.floor(time.monotonic() - begun) + 2)
            answered = outcomes.count(ANSWERED)
            assert 7 <= answered <= most, f"{protocol}: {answered} in {time.monotonic() - begun:.1f} s"
            refusals = {outcome.partition(":")[0] for outcome in outcomes if outcome != ANSWERED}
            assert refusals == {"HTTP 429" if protocol == "http" else "StatusCode.UNAVAILABLE"}


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
    """A second Triton with a Service of its own, as a second installation of the chart has it; its pods."""
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


def test_a_canary_of_a_service_gets_its_share(gateway: Gateway) -> None:
    number, percent = 600, 20
    with (
        second_service(gateway, "canary") as canaries,
        gateway.routed(gateway.model(canary=Canary(percent=percent, service="canary"))),
    ):
        for protocol, ask in {"http": over_http(gateway.http, reused=False), "grpc": over_grpc(gateway.grpc)}.items():
            before = served([*canaries, *gateway.tritons()])
            with load(*[ask] * 4, rate=12) as account:
                _sent(account, number)
            assert account.answered == account.sent, account.outcomes
            after = served([*canaries, *gateway.tritons()])
            chosen = sum(after[pod["metadata"]["name"]] - before[pod["metadata"]["name"]] for pod in canaries)
            assert sum(after.values()) - sum(before.values()) == account.sent
            assert within_chance(chosen, account.sent, percent / 100), f"{protocol}: {chosen} of {account.sent}"


def _sent(account: Account, number: int) -> None:
    until(lambda: account.sent >= number, "the requests to be sent", 240)


def test_a_canary_of_a_version_gets_its_share_over_http(gateway: Gateway) -> None:
    """No pod has version 2, so that each request to it is refused, and counted by that."""
    percent = 20
    with gateway.routed(gateway.model(canary=Canary(percent=percent, version=2))):
        with load(*[over_http(gateway.http, reused=False)] * 4, rate=12) as account:
            _sent(account, 600)
        refused = account.sent - account.answered
        unknown = f"Request for unknown model: '{MODEL}' version 2 is not found"
        assert account.outcomes.keys() == {ANSWERED, f'HTTP 404: {{"error":"{unknown}"}}'}
        assert within_chance(refused, account.sent, 51 / 256), f"{refused} of {account.sent}"


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
            time.sleep(gateway.serving().longest_request_seconds + 1)
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
                    # Envoy takes ports below 1024 as ports above 10000, which need no rights.
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


def clients(gateway: Gateway) -> list[gateway_load.Ask]:
    """Of each kind one or more: with a connection of their own that lasts, with one for each request, and over gRPC."""
    lasting = [over_http(gateway.http, reused=True) for _ in range(2)]
    return [*lasting, over_http(gateway.http, reused=False), over_grpc(gateway.grpc), over_grpc(gateway.grpc)]


def test_no_request_fails_while_every_pod_of_triton_is_replaced(gateway: Gateway) -> None:
    before = {pod["metadata"]["uid"] for pod in gateway.tritons()}
    with load(*clients(gateway)) as account:
        restarted = gateway.twin.shell(
            f"kubectl rollout restart deployment/triton -n {TRITON_NAMESPACE} && "
            f"kubectl rollout status deployment/triton -n {TRITON_NAMESPACE} --timeout=300s"
        )
        assert restarted.returncode == 0, restarted.stderr
        until(lambda: not _ending(gateway, TRITON_NAMESPACE), "the old pods to be gone", 120)
    assert account.answered == account.sent, account.outcomes
    assert not before & {pod["metadata"]["uid"] for pod in gateway.tritons()}


def test_no_request_fails_while_an_envoy_ends(gateway: Gateway) -> None:
    """New connections to it too: a load balancer may go on making them for a minute."""
    envoy = gateway.envoys()[0]
    straight = [over_http(f"{listens(envoy)}:8000", reused=reused) for reused in (True, False)]
    with load(*clients(gateway)) as account:
        gateway.kube.delete(object_path("v1", "pods", GATEWAY_NAMESPACE, envoy["metadata"]["name"]))
        with load(*straight) as late:
            time.sleep(platform.TARGET_LEAVES_SECONDS - 10)
        until(lambda: not _ending(gateway, GATEWAY_NAMESPACE), "the Envoy to be gone", 120)
    assert late.answered == late.sent, late.outcomes
    assert account.answered == account.sent, account.outcomes


def _ending(gateway: Gateway, namespace: str) -> bool:
    found = gateway.kube.get(object_path("v1", "pods", namespace))["items"]
    return any("deletionTimestamp" in pod["metadata"] for pod in found)


def test_a_new_pod_gets_its_share_little_by_little(gateway: Gateway) -> None:
    """Least request alone would send most requests to the pod that has none; Envoy raises its part within half a minute."""
    cluster, gone = gateway.twin.servers().cluster(), gateway.tritons()[0]
    with load(*clients(gateway), *clients(gateway), rate=5) as account:
        gateway.kube.delete(object_path("v1", "pods", TRITON_NAMESPACE, gone["metadata"]["name"]))
        until(lambda: len(cluster.service_addresses(TRITON_NAMESPACE, TRITON_SERVICE)) < 2, "the pod to leave")
        until(lambda: len(cluster.service_addresses(TRITON_NAMESPACE, TRITON_SERVICE)) == 2, "a new pod", 120)
        first = _share_of_the_newest(gateway, 5)
        time.sleep(35)
        last = _share_of_the_newest(gateway, 10)
    assert account.answered == account.sent, account.outcomes
    assert first < 0.3, f"{first:.0%} of the first requests went to a pod that had just become ready"
    assert 0.35 < last < 0.65, f"{last:.0%} of the requests after its start"


def _share_of_the_newest(gateway: Gateway, seconds: float) -> float:
    pods = gateway.tritons()
    newest = max(pods, key=lambda pod: pod["status"]["startTime"])["metadata"]["name"]
    before = served(pods)
    time.sleep(seconds)
    after = served(pods)
    return (after[newest] - before[newest]) / (sum(after.values()) - sum(before.values()))


def test_a_killed_envoy_costs_the_requests_that_it_had_and_comes_back(gateway: Gateway) -> None:
    asks = clients(gateway)
    with load(*asks) as account:
        until(lambda: account.sent > 50, "the load to run")
        os.kill(gateway.process(gateway.envoys()[0], "envoy"), signal.SIGKILL)
        until(
            lambda: all(one["ready"] for pod in gateway.envoys() for one in pod["status"]["containerStatuses"]),
            "it to be back",
        )
        time.sleep(5)
    assert account.sent - account.answered <= 3 * len(asks), account.outcomes


def test_a_killed_server_costs_the_requests_that_it_had(gateway: Gateway) -> None:
    """A request that could not connect is sent to the other pod."""
    asks = clients(gateway)
    with load(*asks) as account:
        until(lambda: account.sent > 50, "the load to run")
        os.kill(gateway.process(gateway.tritons()[0], "triton"), signal.SIGKILL)
        until(
            lambda: len(gateway.twin.servers().cluster().service_addresses(TRITON_NAMESPACE, TRITON_SERVICE)) < 2,
            "it to be missed",
        )
        ready_again = "the server to be back"
        until(lambda: gateway.twin.servers().cluster().rolled_out(TRITON_NAMESPACE, "triton"), ready_again, 120)
    assert account.sent - account.answered <= len(asks), account.outcomes


def test_rules_and_dashboards_read_what_envoy_calls_its_metrics(gateway: Gateway) -> None:
    assert [ask() for ask in clients(gateway)] == [ANSWERED] * 5
    scrape = "\n".join(
        httpx.get(f"http://{listens(pod)}:19001/stats/prometheus", trust_env=False).text for pod in gateway.envoys()
    )
    for selector in (rules.attempts(), rules.calls("total"), rules.of_routes("envoy_cluster_upstream_rq_retry")):
        name, _, matchers = selector.partition("{")
        series = re.findall(rf"^{name}{{(.*)}} ", scrape, re.MULTILINE)
        wanted = re.search(r'envoy_cluster_name=~"([^"]*)"', matchers)
        assert wanted is not None
        clusters = {found for one in series for found in re.findall(r'envoy_cluster_name="([^"]*)"', one)}
        assert any(re.fullmatch(wanted[1], cluster) for cluster in clusters), f"{selector} reads nothing of {clusters}"
    assert re.search(r'^envoy_cluster_upstream_rq_xx{[^}]*envoy_response_code_class="2"', scrape, re.MULTILINE)


def test_only_who_has_a_key_may_ask_and_each_its_own_models(gateway: Gateway) -> None:
    keys = {client: {"current": gateway_clients.new_key()} for client in gateway_clients.CLIENTS}
    access = gateway_clients.by_keys(gateway.kube, keys)
    ours, theirs, every = (keys[client]["current"] for client in ("team-a", "team-b", "everything"))
    with gateway_clients.closed(gateway.kube), gateway.routed(gateway.model(access=access)):
        until(lambda: gateway_clients.http(gateway.http, ours) == 200, "the key to be known")
        until(lambda: gateway_clients.grpc(gateway.grpc, every) == ANSWERED, "the key to be known over gRPC")
        envoy = listens(gateway.envoys()[0])
        http, grpc = partial(gateway_clients.http, f"{envoy}:8000"), partial(gateway_clients.grpc, f"{envoy}:8001")
        assert (http(every), grpc(every)) == (200, ANSWERED)
        # Its message could ask for the other model of these pods.
        assert (http(ours), grpc(ours)) == (200, "StatusCode.PERMISSION_DENIED")
        assert http(**{"x-api-key": ours}) == 200
        assert (http(), grpc()) == (401, "StatusCode.UNAUTHENTICATED")
        assert (http("wrong"), grpc("wrong")) == (401, "StatusCode.UNAUTHENTICATED")
        assert (http(theirs), grpc(theirs)) == (403, "StatusCode.PERMISSION_DENIED")
        # Who says himself who he is.
        assert http(theirs, **{"x-triton-client": "team-a.current"}) == 403
        slow = keys["slow"]["current"]
        assert sorted(http(slow) for _ in range(5)) == [200, 429, 429, 429, 429]
        assert http(ours) == 200
    until(lambda: gateway_clients.http(gateway.http) == 200, "the gateway to be open again")


def test_a_route_without_a_policy_of_its_own_is_closed_where_there_are_clients(gateway: Gateway) -> None:
    with gateway_clients.closed(gateway.kube):
        until(lambda: gateway_clients.http(gateway.http) == 403, "the route to be closed")
        assert gateway_clients.grpc(gateway.grpc) == "StatusCode.PERMISSION_DENIED"
    until(lambda: gateway_clients.http(gateway.http) == 200, "the gateway to be open again")


def test_a_key_is_rotated_under_load_and_no_request_is_lost(gateway: Gateway) -> None:
    keys = {client: {"current": gateway_clients.new_key()} for client in gateway_clients.CLIENTS}
    access = gateway_clients.by_keys(gateway.kube, keys)
    old, new = keys["everything"]["current"], gateway_clients.new_key()
    sent = {"authorization": f"Bearer {old}"}
    asks = [over_http(gateway.http, reused=reused, named=sent) for reused in (True, False)]
    with gateway_clients.closed(gateway.kube), gateway.routed(gateway.model(access=access)):
        until(lambda: gateway_clients.http(gateway.http, old) == 200, "the key to be known")
        until(lambda: gateway_clients.grpc(gateway.grpc, old) == ANSWERED, "the key to be known over gRPC")
        with load(*asks, over_grpc(gateway.grpc, named=sent)) as account:
            with gateway.told():
                gateway_clients.write_keys(gateway.kube, {**keys, "everything": {"current": old, "next": new}})
            sent["authorization"] = f"Bearer {new}"
            with gateway.told():
                gateway_clients.write_keys(gateway.kube, {**keys, "everything": {"current": new, "previous": old}})
            with gateway.told():
                gateway_clients.write_keys(gateway.kube, {**keys, "everything": {"current": new}})
        assert account.answered == account.sent, account.outcomes
        assert account.sent > 100
        assert gateway_clients.http(gateway.http, old) == 401
    until(lambda: gateway_clients.http(gateway.http) == 200, "the gateway to be open again")


def test_a_token_is_checked_for_who_made_it_for_whom_and_when(gateway: Gateway) -> None:
    provider = gateway_clients.Provider()
    made = routes.manifests
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            routes,
            "manifests",
            lambda models, drain: (
                provider.known(one) if one["kind"] == "SecurityPolicy" and "jwt" in one["spec"] else one
                for one in made(models, drain)
            ),
        )
        with gateway_clients.closed(gateway.kube), gateway.routed(gateway.model(access=provider.access)):
            until(lambda: gateway_clients.http(gateway.http, provider.token()) == 200, "the provider to be known")
            envoy = listens(gateway.envoys()[0])
            http, grpc = partial(gateway_clients.http, f"{envoy}:8000"), partial(gateway_clients.grpc, f"{envoy}:8001")
            everything = provider.token(client_id="everything")
            until(lambda: grpc(everything) == ANSWERED, "the provider to be known over gRPC")
            assert (http(provider.token()), http(everything)) == (200, 200)
            assert grpc(provider.token()) == "StatusCode.PERMISSION_DENIED"
            refused = {
                "none": http(),
                "no token": http("x"),
                "expired": http(provider.token(exp=int(time.time()) - 120)),
                "for another service": http(provider.token(aud="another")),
                "of another issuer": http(provider.token(iss="https://evil.example.com/")),
                "signed by somebody else": http(gateway_clients.Provider().token()),
            }
            # Of somebody else's audience Envoy says 403 (`JwtAudienceNotAllowed`).
            assert refused == {**dict.fromkeys(refused, 401), "for another service": 403}
            assert grpc(provider.token(exp=int(time.time()) - 120)) == "StatusCode.UNAUTHENTICATED"
            assert http(provider.token(client_id="team-b")) == 403
            assert http(provider.token(client_id="nobody")) == 403
    until(lambda: gateway_clients.http(gateway.http) == 200, "the gateway to be open again")
