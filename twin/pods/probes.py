"""The kubelet's probes: requests, intervals, and the thresholds that change the verdict."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import grpc
import httpx


@dataclass(frozen=True)
class Probe:
    """A probe of a container, with Kubernetes' defaults. Times are in seconds."""

    kind: str
    handler: Mapping[str, Any]
    initial_delay: float = 0
    period: float = 10
    timeout: float = 1
    success_threshold: int = 1
    failure_threshold: int = 3
    grace_period: int | None = None

    @classmethod
    def parse(cls, kind: str, spec: Mapping[str, Any] | None) -> Probe | None:
        """Return the `startup`, `readiness` or `liveness` probe of a container; None if it has none."""
        if not spec:
            return None
        return cls(
            kind=kind,
            handler=spec,
            initial_delay=spec.get("initialDelaySeconds") or 0,
            period=spec.get("periodSeconds") or 10,
            timeout=spec.get("timeoutSeconds") or 1,
            success_threshold=spec.get("successThreshold") or 1,
            failure_threshold=spec.get("failureThreshold") or 3,
            grace_period=spec.get("terminationGracePeriodSeconds"),
        )


class Verdict:
    """The thresholds of one probe of one running container: counts equal results in a row."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._last: bool | None = None
        self._in_a_row = 0

    def record(self, success: bool) -> bool | None:
        """Record a result; return True or False if enough in a row decide, else None."""
        self._in_a_row = self._in_a_row + 1 if success is self._last else 1
        self._last = success
        threshold = self._probe.success_threshold if success else self._probe.failure_threshold
        return success if self._in_a_row >= threshold else None


async def ask(probe: Probe, address: str, resolve_port: Callable[[int | str], int]) -> tuple[bool, str]:
    """Probe once over the network (httpGet, tcpSocket, grpc); return whether it succeeded, and the result.

    Never raises for a server's misbehaviour; `resolve_port` may raise for a port's name.
    """
    handler = probe.handler
    if "httpGet" in handler:
        return await _http(handler["httpGet"], address, resolve_port, probe.timeout)
    if "tcpSocket" in handler:
        action = handler["tcpSocket"]
        return await _tcp(action.get("host") or address, resolve_port(action["port"]), probe.timeout)
    action = handler["grpc"]
    return await _grpc(f"{address}:{action['port']}", action.get("service") or "", probe.timeout)


async def http_get(action: Mapping[str, Any], address: str, resolve_port: Callable[[int | str], int], timeout: float) -> int:
    """Return an httpGet action's status code, over a new connection, because an idle one would delay Triton's shutdown."""
    scheme = (action.get("scheme") or "HTTP").lower()
    host = action.get("host") or address
    path = "/" + (action.get("path") or "").removeprefix("/")
    headers = {header["name"]: header["value"] for header in action.get("httpHeaders") or []}
    headers |= {"Connection": "close", "User-Agent": "kube-probe/twin"}
    async with httpx.AsyncClient(verify=False, trust_env=False, timeout=timeout) as client:  # noqa: S501 - as the kubelet
        response = await client.get(f"{scheme}://{host}:{resolve_port(action['port'])}{path}", headers=headers)
    return response.status_code


async def _http(
    action: Mapping[str, Any], address: str, resolve_port: Callable[[int | str], int], timeout: float
) -> tuple[bool, str]:
    try:
        async with asyncio.timeout(timeout):
            status = await http_get(action, address, resolve_port, timeout)
    except (httpx.HTTPError, TimeoutError) as error:
        return False, f"GET {action.get('path', '/')}: {type(error).__name__} {error}".strip()
    return 200 <= status < 400, f"HTTP probe failed with statuscode: {status}"


async def _tcp(host: str, port: int, timeout: float) -> tuple[bool, str]:
    try:
        async with asyncio.timeout(timeout):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError) as error:
        return False, f"dial tcp {host}:{port}: {error or 'i/o timeout'}"
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True, ""


async def _grpc(target: str, service: str, timeout: float) -> tuple[bool, str]:
    """Call grpc.health.v1.Health/Check; its two messages have one field each and are encoded here by hand."""
    name = service.encode()
    request = b"\x0a" + bytes([len(name)]) + name if name else b""
    async with grpc.aio.insecure_channel(target, options=[("grpc.enable_http_proxy", 0)]) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        try:
            answer = await check(request, timeout=timeout)
        except grpc.aio.AioRpcError as error:
            return False, f"gRPC health check: {error.code().name} {error.details()}"
    serving = b"\x08\x01"
    return answer == serving, "gRPC health check: not SERVING"
