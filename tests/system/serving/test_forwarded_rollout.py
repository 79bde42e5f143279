"""`modelctl` on pods that it reaches only through the API server's port forward: real API server and servers, lossy network.

The pods' addresses in the API are unreachable. The tests reset connections of the network between the commands and the
API server.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import yaml
from kubernetes import client, config

from benchmarks.rollout_servers import METRICS, admin_key
from console.port_forward import ForwardDenied, ForwardLost, PortClosed, PortForwards
from modelctl.loadgen import Result as Load
from modelctl.rollout.controller import Outcome
from modelctl.rollout.controller import Result as Ended
from modelctl.rollout.fleet import ServedVersion
from modelctl.rollout.kubernetes_fleet import KubernetesFleet
from tests import forwarding
from tests.paths import ROOT
from tests.system.serving.rollout_clients import Clients
from tests.system.serving.rollout_driver import LIMITS
from tests.system.serving.rollout_releases import MODEL
from tests.system.serving.rollout_site import Site
from twin.cluster.certificates import Pki
from twin.cluster.kubelet import KubeletEndpoint
from twin.host.processes import wait_until

NAMESPACE = "triton"
NODE = "node-0"
NOWHERE = "10.244.200.{}"
"""A pod's address, which clients outside the cluster cannot reach."""


class Nodes:
    """The kubelet's end for the local servers of a site, as the pods of a namespace."""

    def __init__(self, core: client.CoreV1Api, pki: Pki) -> None:
        self.core = core
        self._pki = pki
        self._loop = asyncio.new_event_loop()
        self.hosts: dict[str, str] = {}
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def start(self) -> None:
        endpoint = KubeletEndpoint(
            self._pki, lambda *_: None, lambda _, pod: self.hosts.get(pod), lambda *_: {}, self._executed
        )
        port = _free_port()
        asyncio.run_coroutine_threadsafe(endpoint.start(port), self._loop).result(20)
        self.core.create_node({"metadata": {"name": NODE}})
        self.core.patch_node_status(
            NODE,
            {
                "status": {
                    "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                    "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
                }
            },
        )

    async def _executed(self, namespace: str, pod: str, container: str, command: list[str]) -> tuple[int, str]:
        assert (namespace, container, command) == (NAMESPACE, "triton", ["cat", "/run/triton/admin-key"])
        return 0, admin_key(pod)

    def register(self, site: Site) -> None:
        """Create a pod for each server, and the EndpointSlice of their Service."""
        endpoints = []
        for number, record in enumerate(site.servers.fleet.records(), 2):
            self.hosts[record.name] = record.address
            spec = {"nodeName": NODE, "containers": [{"name": "triton", "image": "triton"}]}
            self.core.create_namespaced_pod(NAMESPACE, {"metadata": {"name": record.name}, "spec": spec})
            target = {"kind": "Pod", "name": record.name, "uid": record.name}
            endpoints.append({"addresses": [NOWHERE.format(number)], "targetRef": target})
        body = {
            "metadata": {"name": "triton-x", "labels": {"kubernetes.io/service-name": "triton-headless", **LABELS}},
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8000}],
            "endpoints": endpoints,
        }
        client.DiscoveryV1Api(self.core.api_client).create_namespaced_endpoint_slice(NAMESPACE, body)


LABELS = {"app.kubernetes.io/name": "triton", "app.kubernetes.io/component": "inference-headless"}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture(scope="module")
def core(api_server_kubeconfig: str) -> client.CoreV1Api:
    return client.CoreV1Api(config.new_client_from_config(api_server_kubeconfig))


@pytest.fixture(scope="module")
def nodes(core: client.CoreV1Api, api_server_kubeconfig: str) -> Nodes:
    made = Nodes(core, Pki(Path(api_server_kubeconfig).parent / "pki"))
    core.create_namespace({"metadata": {"name": NAMESPACE}})
    wait_until(lambda: _exists(core.read_namespaced_service_account, "default"), "the account of the namespace", 60)
    made.start()
    return made


def _exists(read: Callable[..., Any], name: str) -> bool:
    try:
        return bool(read(name, NAMESPACE))
    except client.ApiException as error:
        assert error.status == 404
        return False


@pytest.fixture
def network(api_server_kubeconfig: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[forwarding.Network]:
    """Return the network to the API server, which KUBECONFIG uses."""
    content = yaml.safe_load(Path(api_server_kubeconfig).read_text())
    (cluster,) = content["clusters"]
    url = urlsplit(cluster["cluster"]["server"])
    with forwarding.network(str(url.hostname), url.port or 443) as way:
        cluster["cluster"]["server"] = f"https://127.0.0.1:{way.port}"
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(content))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
        yield way


@pytest.fixture
def site(empty_site: Site, nodes: Nodes) -> Iterator[Site]:
    """Return two servers with version 1, as pods."""
    empty_site.serve_first(2)
    nodes.register(empty_site)
    yield empty_site
    client.DiscoveryV1Api(nodes.core.api_client).delete_namespaced_endpoint_slice("triton-x", NAMESPACE)
    for name in nodes.hosts:
        nodes.core.delete_namespaced_pod(name, NAMESPACE, grace_period_seconds=0)
    wait_until(lambda: not nodes.core.list_namespaced_pod(NAMESPACE).items, "the pods to be gone", 60)
    nodes.hosts.clear()


class Account:
    """Each request of this process to a pod, by its outcome."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent = self.answered = self.lost = self.closed = self.other = 0
        before = httpx.Client.request
        lock = threading.Lock()

        def request(this: httpx.Client, method: str, url: Any, **arguments: Any) -> httpx.Response:
            if not str(url).startswith("http://triton-"):
                return before(this, method, url, **arguments)
            ended = "other"
            try:
                answer = before(this, method, url, **arguments)
                ended = "answered"
                return answer
            except ForwardLost:
                ended = "lost"
                raise
            except PortClosed:
                ended = "closed"
                raise
            finally:
                with lock:
                    self.sent += 1
                    setattr(self, ended, getattr(self, ended) + 1)

        monkeypatch.setattr(httpx.Client, "request", request)


@pytest.mark.timeout(600)
def test_a_rollout_whose_forwards_are_lost_again_and_again_ends_well_and_accounts_for_each_request(
    site: Site, api_server_kubeconfig: str, network: forwarding.Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = Account(monkeypatch)
    told: list[str] = []
    fleet = KubernetesFleet(NAMESPACE, tell=told.append)
    assert {pod.http for pod in fleet.pods()} == {"http://triton-0:8000", "http://triton-1:8000"}
    monkeypatch.setenv("KUBECONFIG", api_server_kubeconfig)
    of_clients = KubernetesFleet(NAMESPACE)
    of_clients.serve({MODEL: ServedVersion(stable=1)})
    second = site.release(2)

    async def both() -> tuple[Load, Ended]:
        done = asyncio.Event()
        load = asyncio.create_task(Clients(site, fleet=of_clients).load(20, 600, done))
        network.every = 4
        limits = replace(LIMITS, watch=3, quiet=3)
        result = await asyncio.to_thread(site.rollout, second, canary=(50,), fleet=fleet, limits=limits)
        done.set()
        return (await load)[1], result

    load, result = asyncio.run(both())

    assert result.outcome is Outcome.DONE, result.reason
    of_load = load.account()
    assert (of_load.answered, of_load.failed) == (of_load.sent, 0), load.errors
    assert account.sent == account.answered + account.lost + account.closed
    assert account.lost > 0 < network.lost
    assert len(told) == account.lost
    assert all(line.endswith(("is sent again", "is not known")) for line in told)
    assert of_clients.served() == {MODEL: ServedVersion(stable=2)}
    assert site.differences() == []
    print(f"{account.sent} requests, {account.lost} lost with {network.lost} connections")


def _modelctl(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "modelctl", *arguments]
    return subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=120, check=False)


def test_parity_reaches_pods_whose_addresses_lead_nowhere(site: Site, network: forwarding.Network) -> None:
    done = _modelctl("parity", "--json")
    assert done.returncode == 0, done.stderr
    pods = json.loads(done.stdout)["pods"]
    assert {name: list(pod["models"]) for name, pod in pods.items()} == {"triton-0": [MODEL], "triton-1": [MODEL]}


@pytest.mark.usefixtures("site", "network")
def test_what_is_not_there_is_closed_and_the_rest_answers(nodes: Nodes) -> None:
    forwards = PortForwards(nodes.core.api_client, NAMESPACE)
    with httpx.Client(transport=forwards.transport(), timeout=30) as http:
        assert "nv_inference_count" in http.get(f"http://triton-0:{METRICS}/metrics").text
        with pytest.raises(PortClosed, match="port 8003 is closed: failed to connect to localhost:8003 inside namespace"):
            http.get("http://triton-0:8003/")
        with pytest.raises(PortClosed, match=r'\(404: pods "triton-9" not found\)$'):
            http.get("http://triton-9:8000/")
        nodes.hosts.pop("triton-1")  # the kubelet no longer knows it
        with pytest.raises(PortClosed, match=r"^pod triton-1 has no port 8000 to reach \(404"):
            http.get("http://triton-1:8000/")
        nodes.hosts["triton-1"] = "127.0.0.1"


OPERATOR = [
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["get", "create"]},
]
VIEW = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
"""AmazonEKSAdminViewPolicy: https://docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html."""


@pytest.mark.parametrize(("name", "rules", "forwards"), [("operator", OPERATOR, True), ("viewer", VIEW, False)])
@pytest.mark.usefixtures("site", "network")
def test_who_may_only_look_forwards_no_port(nodes: Nodes, name: str, rules: list[Any], forwards: bool) -> None:
    rbac, core = client.RbacAuthorizationV1Api(nodes.core.api_client), nodes.core
    core.create_namespaced_service_account(NAMESPACE, {"metadata": {"name": name}})
    rbac.create_namespaced_role(NAMESPACE, {"metadata": {"name": name}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    rbac.create_namespaced_role_binding(NAMESPACE, binding)
    token = core.create_namespaced_service_account_token(name, NAMESPACE, {"spec": {}}).status.token
    admin = core.api_client.configuration
    configuration = client.Configuration(host=admin.host)
    configuration.ssl_ca_cert = admin.ssl_ca_cert
    configuration.api_key["BearerToken"] = f"Bearer {token}"
    api = client.ApiClient(configuration)
    deadline = time.monotonic() + 20  # the authorizer reads rules from its cache
    while True:
        try:
            PortForwards(api, NAMESPACE).connect("triton-0", METRICS).close()
        except ForwardDenied as denied:
            if "cannot get resource" in str(denied) and time.monotonic() < deadline:
                time.sleep(0.1)
                continue
            assert not forwards, denied
            assert 'answers 403: pods "triton-0" is forbidden; this needs get and create' in str(denied)
        else:
            assert forwards
        break
    if not forwards:
        assert client.CoreV1Api(api).read_namespaced_pod("triton-0", NAMESPACE).metadata.name == "triton-0"
