"""An HTTP proxy on loopback with which programs outside of pods reach the cluster's Services by name.

It does the work of CoreDNS and kube-proxy for a pod. The name of a Service and one of its ports lead to one of its ready
pods. All other hosts are refused, and so is TLS (CONNECT): the proxy reaches nothing outside the twin.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable

import httpx
from aiohttp import web

from twin.cluster.kube_errors import KubeError
from twin.cluster.services import ClusterServices

log = logging.getLogger("twin.proxy")
_SECONDS = 30.0
_OF_THE_CONNECTION = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
    }
)
"""Headers that are not forwarded: they apply to one connection, or to a body before httpx decoded it."""


class ClusterProxy:
    """Answers requests in absolute form (`GET http://service.namespace:port/…`), as clients with HTTP_PROXY send them."""

    def __init__(self, services: ClusterServices) -> None:
        self._services = services
        self._client = httpx.AsyncClient(trust_env=False, timeout=httpx.Timeout(_SECONDS, connect=3.0))

    async def start(self, port: int) -> None:
        """Listen on 127.0.0.1."""
        runner = web.ServerRunner(web.Server(self._serve))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "CONNECT":
            return _refusal(403, "this proxy has no tunnels: it speaks plain HTTP with Services of the twin's cluster")
        host, port = request.url.host or "", request.url.port or 80
        try:
            listeners = await self._services.listeners(host, port)
        except KubeError as error:
            return _refusal(502, f"the API server does not say where {host} is: {error}")
        if listeners is None:
            return _refusal(
                403, f"{host}:{port} is not a Service of the twin's cluster, and this proxy reaches nothing else"
            )
        if not listeners:
            return _refusal(503, f"no pod behind {host}:{port} is ready")
        return await self._forward(request, *random.choice(listeners))  # noqa: S311 - it spreads load

    async def _forward(self, request: web.BaseRequest, address: str, port: int) -> web.StreamResponse:
        target = httpx.URL(f"http://{address}:{port}").copy_with(raw_path=request.url.raw_path_qs.encode("ascii"))
        headers = _passed_on(request.headers.items())
        try:
            answer = await self._client.request(request.method, target, headers=headers, content=await request.read())
        except httpx.HTTPError as error:
            return _refusal(502, f"{request.url.host} at {address}:{port} does not answer: {type(error).__name__} {error}")
        return web.Response(status=answer.status_code, headers=_passed_on(answer.headers.items()), body=answer.content)


def _passed_on(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {name: value for name, value in headers if name.lower() not in _OF_THE_CONNECTION}


def _refusal(status: int, message: str) -> web.Response:
    log.info("%d: %s", status, message)
    return web.Response(status=status, text=f"{message}\n")
