"""The proxy that programs outside of pods use to reach Services, used by such a program."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from aiohttp import web

from tests.worker.site import free_port
from twin.cluster.kube_api import Object
from twin.cluster.proxy import ClusterProxy
from twin.cluster.services import ClusterServices

POD = "127.244.201.9"


class Api:
    """An API server with a Service `prometheus` (port 9090 to the port `web` of its pods) and a headless one."""

    def __init__(self, target: int, ready: bool = True) -> None:
        self.target = target
        self.ready = ready

    async def find(self, path: str) -> Object | None:
        match path.rpartition("/")[2]:
            case "prometheus":
                ports = [{"name": "other", "port": 80}, {"name": "web", "port": 9090}]
                return {"spec": {"clusterIP": "10.96.0.7", "ports": ports}}
            case "headless":
                return {"spec": {"clusterIP": "None", "ports": [{"port": 1}]}}
        return None

    async def get(self, path: str, **params: str) -> Object:
        endpoints = [
            {"addresses": ["10.244.201.9"], "conditions": {"ready": self.ready}},
            {"addresses": ["10.244.201.10"], "conditions": {"ready": False}},
        ]
        ports = [{"name": "other", "port": 1}, {"name": "web", "port": self.target}]
        return {"items": [{"endpoints": endpoints, "ports": ports}]}


async def echo(request: web.BaseRequest) -> web.Response:
    said = {
        "method": request.method,
        "path": request.raw_path,
        "host": request.host,
        "body": await request.text(),
        "token": request.headers.get("X-Token"),
    }
    return web.json_response(said, status=207, headers={"X-Kind": "pod"})


def through(ask: Callable[[httpx.AsyncClient, int], Awaitable[Any]], *, ready: bool = True, serving: bool = True) -> Any:
    """Return the result of `ask`, called with a client of a proxy and the port on which its pod listens."""

    async def exchange() -> Any:
        target, port = free_port(), free_port()
        runner = web.ServerRunner(web.Server(echo))
        await runner.setup()
        if serving:
            await web.TCPSite(runner, POD, target).start()
        await ClusterProxy(ClusterServices(Api(target, ready))).start(port)  # type: ignore[arg-type]
        try:
            async with httpx.AsyncClient(proxy=f"http://127.0.0.1:{port}", trust_env=False, timeout=20) as client:
                return await ask(client, target)
        finally:
            await runner.cleanup()

    return asyncio.run(exchange())


@pytest.mark.parametrize(
    "host", ["prometheus.monitoring.svc", "prometheus.monitoring.svc.cluster.local", "prometheus.monitoring"]
)
def test_a_service_leads_to_its_ready_pod_and_its_port_to_the_pods(host: str) -> None:
    async def ask(client: httpx.AsyncClient, target: int) -> httpx.Response:
        url = f"http://{host}:9090/api/v1/query?query=sum%28a%2Bb%29&time=1"
        return await client.post(url, content="body", headers={"X-Token": "t"})

    answer = through(ask)
    assert (answer.status_code, answer.headers["X-Kind"]) == (207, "pod")
    assert answer.json() == {
        "method": "POST",
        "path": "/api/v1/query?query=sum%28a%2Bb%29&time=1",
        "host": f"{host}:9090",
        "body": "body",
        "token": "t",
    }


def test_a_headless_service_has_the_ports_of_its_pods() -> None:
    async def ask(client: httpx.AsyncClient, target: int) -> int:
        return (await client.get(f"http://headless.monitoring.svc:{target}/")).status_code

    assert through(ask) == 207


@pytest.mark.parametrize(
    "url",
    ["http://example.com/", "http://prometheus.monitoring.svc:1/", "http://10.96.0.7:9090/", "http://169.254.169.254/"],
)
def test_everything_else_is_refused(url: str) -> None:
    async def ask(client: httpx.AsyncClient, target: int) -> httpx.Response:
        return await client.get(url)

    answer = through(ask)
    assert answer.status_code == 403
    assert "is not a Service of the twin's cluster" in answer.text


def test_there_are_no_tunnels() -> None:
    async def ask(client: httpx.AsyncClient, target: int) -> None:
        await client.get("https://prometheus.monitoring.svc:9090/")

    with pytest.raises(httpx.ProxyError, match="403"):
        through(ask)


def test_a_service_without_ready_pods_is_unavailable() -> None:
    async def ask(client: httpx.AsyncClient, target: int) -> httpx.Response:
        return await client.get("http://prometheus.monitoring.svc:9090/")

    assert through(ask, ready=False).status_code == 503
    assert through(ask, serving=False).status_code == 502
