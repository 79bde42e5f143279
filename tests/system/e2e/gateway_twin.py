"""A twin with a gateway for the end-to-end tests: its Envoys and servers, and waits for them."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from infra.serving import routes
from infra.serving.routed_model import RoutedModel
from infra.serving.triton_values import read_drain
from spec.names import GATEWAY_NAMESPACE, TRITON_GRPC_PORT, TRITON_HTTP_PORT, TRITON_NAMESPACE
from spec.settings import Settings, load_stack_file
from spec.settings.serving import ModelServing
from tests.system.e2e import gateway_load, gateway_objects
from tests.system.e2e.conftest import UP_SECONDS, taken_down
from tests.system.e2e.gateway_load import ANSWERED, MODEL, over_grpc, over_http
from tests.system.e2e.monitored import Monitored
from twin.cluster.kube_api import KubeClient, object_path
from twin.cluster.pod_addresses import loopback
from twin.host import processes
from twin.host.home import TwinHome

SECONDS = 60.0
"""The longest time for a change from the API server to every Envoy, on a busy machine."""


@dataclass(frozen=True)
class Gateway:
    """A twin with a gateway; `address` is its load balancer's address."""

    twin: Monitored
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
        """Return the pods with an address whose names begin with `name`, without terminating pods."""
        found = self.kube.get(object_path("v1", "pods", namespace))["items"]
        staying = [pod for pod in found if "deletionTimestamp" not in pod["metadata"] and "podIP" in pod["status"]]
        return [pod for pod in staying if pod["metadata"]["name"].startswith(name)]

    def envoys(self) -> list[dict[str, Any]]:
        return self.pods(GATEWAY_NAMESPACE, "envoy-")

    def tritons(self, name: str = "triton-") -> list[dict[str, Any]]:
        return self.pods(TRITON_NAMESPACE, name)

    def process(self, pod: Mapping[str, Any], container: str) -> int:
        """Return the process of a container of a pod."""
        record = processes.find(self.twin.home, f"pod-{pod['metadata']['uid']}-{container}")
        assert record is not None
        return record.pid

    def scrape(self) -> str:
        """Return the metrics of all Envoys, joined."""
        urls = [f"http://{listens(pod)}:19001/stats/prometheus" for pod in self.envoys()]
        return "".join(httpx.get(url, trust_env=False).text for url in urls)

    def counted(self, metric: str, clusters: str = f'[^"]*/triton/{MODEL}/[^"]*') -> float:
        """Return the sum of a metric over all Envoys, for the clusters with these names: the routes of MODEL."""
        series = re.findall(rf"^{metric}{{([^}}]*)}} (\S+)$", self.scrape(), re.MULTILINE)
        return sum(float(value) for labels, value in series if re.search(f'envoy_cluster_name="{clusters}"', labels))

    def answers_itself(self) -> list[bool]:
        """Return whether Envoy itself answers without a pod, for each route of MODEL in each Envoy."""
        found = []
        for pod in self.envoys():
            url = f"http://{listens(pod)}:19000/config_dump?resource=dynamic_route_configs"
            configs = httpx.get(url, trust_env=False).json()["configs"]
            routes = [route for one in configs for host in one["route_config"]["virtual_hosts"] for route in host["routes"]]
            ours = [route for route in routes if re.match(f"(http|grpc)route/{TRITON_NAMESPACE}/{MODEL}/", route["name"])]
            assert {route["name"].partition("/")[0] for route in ours} == {"httproute", "grpcroute"}
            found += ["direct_response" in route for route in ours]
        return found

    def apply(self, manifest: dict[str, Any]) -> None:
        gateway_objects.apply(self.kube, manifest)

    def generations(self) -> list[str]:
        """Return the clusters, endpoints, listeners and routes of each Envoy; every change changes them."""
        urls = [f"http://{listens(pod)}:19000/config_dump?include_eds" for pod in self.envoys()]
        # Sorted, because Envoy's maps have no fixed order.
        return [json.dumps(httpx.get(url, trust_env=False).json(), sort_keys=True) for url in urls]

    @contextmanager
    def routed(self, model: RoutedModel) -> Iterator[None]:
        """Apply the program's routes and policy for `model` during the block, then the stack's again."""
        self._route(model)
        try:
            yield
        finally:
            self._route(self.model())

    def model(self, serving: ModelServing | None = None, **more: Any) -> RoutedModel:
        """Return MODEL as the stack has it, or with other settings."""
        own = self.settings().models.serving[MODEL]
        return RoutedModel(MODEL, serving or own, **more)

    def serving(self, **changed: Any) -> ModelServing:
        return self.settings().models.serving[MODEL].model_copy(update=changed)

    def _route(self, model: RoutedModel) -> None:
        with self.told():
            for manifest in routes.manifests([model], read_drain("local", self.settings().models.serving)):
                self.apply(manifest)

    @contextmanager
    def told(self) -> Iterator[None]:
        """After the changes in the block, wait until every Envoy has received and applied them."""
        before = last = self.generations()
        yield

        def settled() -> bool:
            nonlocal last
            earlier, last = last, self.generations()
            changed = all(new != old for new, old in zip(last, before, strict=True))
            # For up to 15 s a changed cluster waits for endpoints, which are unchanged and therefore not sent again.
            return last == earlier and changed and not any("dynamic_warming_clusters" in one for one in last)

        processes.wait_until(settled, "every Envoy to be told", SECONDS, poll=1.0)


def listens(pod: Mapping[str, Any]) -> str:
    return loopback(pod["status"]["podIP"])


def until(holds: Callable[[], object], what: str, seconds: float = SECONDS) -> None:
    processes.wait_until(holds, what, seconds, poll=0.3)


def age(seconds: float) -> None:
    """Wait for this time, after which a test checks that something still holds."""
    begun = time.monotonic()
    processes.wait_until(lambda: time.monotonic() - begun >= seconds, "time to pass", seconds + SECONDS, poll=0.3)


def served(pods: list[dict[str, Any]]) -> dict[str, int]:
    """Return the number of inferences of MODEL that each Triton pod has made since its start, by pod name."""
    found = {}
    for pod in pods:
        answer = httpx.get(f"http://{listens(pod)}:{TRITON_HTTP_PORT}/v2/models/{MODEL}/stats", trust_env=False).json()
        found[pod["metadata"]["name"]] = sum(one["inference_count"] for one in answer["model_stats"])
    return found


def within_chance(chosen: int, of: int, share: float) -> bool:
    """Return whether `chosen` of `of` fits the share, except in one run of 10,000 (3.9 standard deviations)."""
    return abs(chosen - of * share) <= 3.9 * math.sqrt(of * share * (1 - share))


@contextmanager
def up(home: Path, pins: Mapping[str, Any]) -> Iterator[Gateway]:
    """Bring up a twin with a gateway during the block; `pins` are keys of its stack file."""
    with taken_down(Monitored(TwinHome(home))) as twin:
        for key, value in pins.items():
            twin.pin(key, value)
        done = twin.run("up", "--gateway", seconds=UP_SECONDS)
        assert done.returncode == 0, done.stdout[-4000:]
        yield ready(twin)


def ready(twin: Monitored) -> Gateway:
    """Return the gateway of a twin, after its load balancer answers."""
    kube = twin.servers().cluster().client
    services = kube.get(object_path("v1", "services", GATEWAY_NAMESPACE))["items"]
    address = next(ingress["ip"] for one in services for ingress in one["status"]["loadBalancer"]["ingress"])
    found = Gateway(twin, kube, address)
    until(lambda: over_http(found.http, reused=False)() == ANSWERED, "the gateway to answer")
    return found


def clients(gateway: Gateway) -> list[gateway_load.Ask]:
    """Return clients of each kind: HTTP with a lasting connection, HTTP with one for each request, and gRPC."""
    lasting = [over_http(gateway.http, reused=True) for _ in range(2)]
    return [*lasting, over_http(gateway.http, reused=False), over_grpc(gateway.grpc), over_grpc(gateway.grpc)]


def ending(gateway: Gateway, namespace: str) -> bool:
    found = gateway.kube.get(object_path("v1", "pods", namespace))["items"]
    return any("deletionTimestamp" in pod["metadata"] for pod in found)
