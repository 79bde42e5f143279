"""The ways to a Triton pod that the gateway measurements compare, on a separate twin.

Directly to a pod; through an Envoy with only a route, which is the cost of a proxy hop on this machine; and through the
gateway's Envoys. The load balancer in front of these is excluded, because the twin's load balancer is our own program.
Requests go to all pods, or to all Envoys, in turn.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal

import aiohttp
import numpy as np
from tritonclient.grpc import InferInput

from benchmarks.local_process import cpu_seconds, free_port
from examples.gateway import headers
from modelctl.loadgen import RequestFailed, Send, grpc_sender
from modelctl.loadgen.grpc_sender import SHED_WORDS
from modelctl.loadgen.result import SHED
from spec.names import GATEWAY_NAMESPACE, TRITON_GRPC_PORT, TRITON_HTTP_PORT, TRITON_NAMESPACE
from twin.charts.envoy_gateway import pods as envoy
from twin.engine import stack_files
from twin.host import claim, processes
from twin.host.home import TwinHome
from twin.services.servers import Servers

REPOSITORY = Path(__file__).resolve().parents[1]
MODEL, INPUT, VALUES = "classify", "NORMALIZED", [5.25, 3.5, 1.75, 0.25]
SERVER_VERSION = "2.51.0"
INSTANCES = 2
"""Of the model in a pod. With one instance, a request of any way may wait for the next one to wake it
(docs/serving.md#known-limits-of-the-server), which is no effect of the gateway.
"""
PEAK_RATE = 10_000
"""Requests/s that the stack expects at most, far above the load: the gateway refuses much higher rates."""

Way = Literal["pod", "proxy", "gateway"]
Protocol = Literal["http", "grpc"]
WAYS: tuple[Way, ...] = ("pod", "proxy", "gateway")
PROTOCOLS: tuple[Protocol, ...] = ("http", "grpc")
_START_SECONDS = 20.0


@dataclass(frozen=True)
class Ways:
    """Destinations, HOST:PORT each, by way and protocol; and the Envoy processes of each way."""

    addresses: Mapping[tuple[Way, Protocol], Sequence[str]]
    envoys: Mapping[Way, Sequence[int]]

    def sender(self, way: Way, protocol: Protocol) -> AbstractAsyncContextManager[Send]:
        """Return a context that sends requests to the model this way."""
        return (_http if protocol == "http" else _grpc)(self.addresses[way, protocol])

    def envoy_seconds(self, way: Way) -> float:
        """Return the processor time that a way's Envoys have used so far."""
        return sum(cpu_seconds(pid) for pid in self.envoys.get(way, ()))


@contextmanager
def twin() -> Iterator[Ways]:
    """Run a twin with a gateway, and an Envoy with only a route; yield the ways to its pods."""
    with tempfile.TemporaryDirectory(prefix="gateway-") as folder:
        home = Path(folder) / "twin"
        command = [sys.executable, "-m", "twin"]
        environment = {**os.environ, "TWIN_HOME": str(home)}
        try:
            claim.claim(home)
            wants = stack_files.config(TwinHome(home), stack_files.STACK)["triton-eks:models"]["serving"][MODEL]
            wanted = {**wants, "peakRate": PEAK_RATE, "instances": INSTANCES}
            stack_files.pin(TwinHome(home), stack_files.STACK, f"triton-eks:models.serving.{MODEL}", wanted)
            subprocess.run([*command, "up", "--gateway"], cwd=REPOSITORY, env=environment, check=True)
            pods = [pod for pod in Servers.running(TwinHome(home)).cluster().pods() if pod.listens and pod.ready]
            hosts: dict[Way, list[str]] = {
                "pod": [pod.listens for pod in pods if pod.namespace == TRITON_NAMESPACE and pod.name.startswith("triton-")],
                "gateway": [pod.listens for pod in pods if pod.namespace == GATEWAY_NAMESPACE],
            }
            ports: dict[Protocol, int] = {"http": TRITON_HTTP_PORT, "grpc": TRITON_GRPC_PORT}
            addresses: dict[tuple[Way, Protocol], Sequence[str]] = {
                (way, protocol): [f"{host}:{port}" for host in found]
                for way, found in hosts.items()
                for protocol, port in ports.items()
            }
            program = str(envoy.locate())
            gateway = [record.pid for record in processes.records(TwinHome(home)) if record.argv[0] == program]
            with _proxy(program, hosts["pod"], ports) as (proxy, listeners):
                addresses |= {("proxy", protocol): [f"127.0.0.1:{port}"] for protocol, port in listeners.items()}
                yield Ways(addresses, {"proxy": [proxy], "gateway": gateway})
        finally:
            subprocess.run([*command, "down"], cwd=REPOSITORY, env=environment, check=False)


@contextmanager
def _proxy(program: str, pods: Sequence[str], ports: Mapping[Protocol, int]) -> Iterator[tuple[int, dict[Protocol, int]]]:
    """Run an Envoy with only a route to the pods; yield its process and its port for each protocol."""
    listeners: dict[Protocol, int] = {protocol: free_port() for protocol in ports}
    bootstrap = json.dumps(bare_bootstrap(pods, ports, listeners))
    command = [program, "--config-yaml", bootstrap, "--disable-hot-restart", "--log-level", "error"]
    with subprocess.Popen(command) as process:
        try:

            def ready() -> bool:
                if process.poll() is not None:
                    raise SystemExit("error: an Envoy with nothing but a route ended before it listened")
                return all(map(_answers, listeners.values()))

            processes.wait_until(ready, "an Envoy with nothing but a route to listen", _START_SECONDS)
            yield process.pid, listeners
        finally:
            process.terminate()


def bare_bootstrap(pods: Sequence[str], ports: Mapping[Protocol, int], listeners: Mapping[Protocol, int]) -> dict[str, Any]:
    """Return the bootstrap of an Envoy that sends requests to the pods in turn, with only the router filter and no log."""
    http2 = {
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
            "explicit_http_config": {"http2_protocol_options": {}},
        }
    }
    router = {
        "name": "envoy.filters.http.router",
        "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
    }

    def manager(protocol: Protocol) -> dict[str, Any]:
        return {
            "name": "envoy.filters.network.http_connection_manager",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3."
                "HttpConnectionManager",
                "stat_prefix": protocol,
                "route_config": {
                    "virtual_hosts": [
                        {
                            "name": protocol,
                            "domains": ["*"],
                            "routes": [{"match": {"prefix": "/"}, "route": {"cluster": protocol}}],
                        }
                    ]
                },
                "http_filters": [router],
            },
        }

    return {
        "static_resources": {
            "listeners": [
                {
                    "name": protocol,
                    "address": _socket("127.0.0.1", port),
                    "filter_chains": [{"filters": [manager(protocol)]}],
                }
                for protocol, port in listeners.items()
            ],
            "clusters": [
                {
                    "name": protocol,
                    "type": "STATIC",
                    "lb_policy": "ROUND_ROBIN",
                    "load_assignment": {
                        "cluster_name": protocol,
                        "endpoints": [{"lb_endpoints": [{"endpoint": {"address": _socket(pod, port)}} for pod in pods]}],
                    },
                    **({"typed_extension_protocol_options": http2} if protocol == "grpc" else {}),
                }
                for protocol, port in ports.items()
            ],
        }
    }


def _socket(host: str, port: int) -> dict[str, Any]:
    return {"socket_address": {"address": host, "port_value": port}}


def _answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _grpc(addresses: Sequence[str]) -> AbstractAsyncContextManager[Send]:
    tensor = InferInput(INPUT, [1, len(VALUES)], "FP32")
    tensor.set_data_from_numpy(np.array([VALUES], np.float32))
    return grpc_sender(addresses, MODEL, [tensor], headers=headers(MODEL))


@asynccontextmanager
async def _http(addresses: Sequence[str]) -> AsyncIterator[Send]:
    body = {"inputs": [{"name": INPUT, "shape": [1, len(VALUES)], "datatype": "FP32", "data": VALUES}]}
    urls = [f"http://{address}/v2/models/{MODEL}/infer" for address in addresses]
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as client:

        async def send(number: int) -> None:
            try:
                async with client.post(urls[number % len(urls)], json=body) as answer:
                    said = await answer.text()
            except (aiohttp.ClientError, TimeoutError) as error:
                raise RequestFailed(type(error).__name__) from None
            if answer.status != HTTPStatus.OK:
                raise RequestFailed(SHED if any(words in said for words in SHED_WORDS) else f"{answer.status} {said}")

        yield send
