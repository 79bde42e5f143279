"""A small model of the AWS Load Balancer Controller and its network load balancers, for Services.

Each port of a Service of type LoadBalancer is a listener at the twin's own address (pod_addresses.py). Targets are pods. A
new target takes connections once its health check has passed as often as the Service's annotations require. A terminating
target takes no new connections, and a target takes none while its check fails. Connections stay with their target until
they end. TLS is not terminated here, because this machine cannot have an ACM certificate.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from twin.cluster import pod_addresses
from twin.cluster.kube_api import KubeApi, Object, object_path
from twin.cluster.kube_errors import KubeError
from twin.cluster.services import follow_slices

log = logging.getLogger("twin.load-balancer")
_CLASS = "service.k8s.aws/nlb"
_ANNOTATION = "service.beta.kubernetes.io/aws-load-balancer-"
_BLOCK = 65536
_AGAIN_SECONDS = 1.0
_CONNECT_SECONDS = 3.0


@dataclass(frozen=True)
class HealthCheck:
    """How a target is checked, and how many equal results in a row decide."""

    port: int
    path: str
    interval: float
    timeout: float
    healthy: int
    unhealthy: int

    @classmethod
    def of(cls, annotations: Mapping[str, str]) -> HealthCheck:
        """Return the settings in a Service's annotations, with the controller's defaults. Raises KeyError without a port."""

        def said(name: str, default: str = "") -> str:
            return annotations.get(f"{_ANNOTATION}healthcheck-{name}", default)

        return cls(
            port=int(annotations[f"{_ANNOTATION}healthcheck-port"]),
            path=said("path", "/"),
            interval=float(said("interval", "10")),
            timeout=float(said("timeout", "10")),
            healthy=int(said("healthy-threshold", "3")),
            unhealthy=int(said("unhealthy-threshold", "3")),
        )


@dataclass
class Target:
    """A pod behind a load balancer: its address, and how often in a row its health check had the last result."""

    address: str
    healthy: bool = False
    said: bool | None = None
    in_a_row: int = 0

    def record(self, answer: bool, check: HealthCheck) -> None:
        """Record a result of the health check."""
        self.in_a_row = self.in_a_row + 1 if answer is self.said else 1
        self.said = answer
        if self.in_a_row >= (check.healthy if answer else check.unhealthy):
            self.healthy = answer


@dataclass
class _Balancer:
    """The load balancer of one Service: targets by address, listeners by port, and the task that checks each target."""

    check: HealthCheck
    ports: dict[int, int]
    targets: dict[str, Target] = field(default_factory=dict)
    checks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    listeners: dict[int, asyncio.Server] = field(default_factory=dict)


class LoadBalancers:
    """Creates and maintains the AWS load balancers of all Services, at one address of this machine."""

    def __init__(self, api: KubeApi, address: str) -> None:
        self._api = api
        self._address = address
        self._balancers: dict[tuple[str, str], _Balancer] = {}
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._streams: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Follow the Services forever."""
        try:
            async for kind, changed in self._api.watch("/api/v1/services"):
                found = changed["items"] if kind == "SYNC" else [changed]
                wanted = {_key(item): item for item in found if kind != "DELETED" and _is_balanced(item)}
                known = self._balancers.keys() if kind == "SYNC" else {_key(item) for item in found}
                for key in [key for key in known if key in self._balancers and key not in wanted]:
                    await self._remove(key)
                for key, service in wanted.items():
                    await self._ensure(key, service)
        finally:
            for key in list(self._balancers):
                await self._remove(key)
            for stream in self._streams:
                stream.cancel()

    async def _ensure(self, key: tuple[str, str], service: Object) -> None:
        try:
            check = HealthCheck.of(service["metadata"].get("annotations") or {})
        except (KeyError, ValueError) as error:
            log.warning("Service %s/%s has no health check that can be read: %s", *key, error)
            return
        ports = {port["port"]: int(port["targetPort"]) for port in service["spec"]["ports"]}
        before = self._balancers.get(key)
        if before is None or (before.check, before.ports) != (check, ports):
            await self._remove(key)
            self._balancers[key] = balancer = _Balancer(check, ports)
            self._tasks[key] = asyncio.create_task(self._follow_targets(key, balancer))
            for port, target_port in ports.items():
                await self._listen(key, balancer, port, target_port)
        await self._announce(key, service)

    async def _listen(self, key: tuple[str, str], balancer: _Balancer, port: int, target_port: int) -> None:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._streams.add(task)
            task.add_done_callback(self._streams.discard)
            await self._carry(balancer, target_port, reader, writer)

        try:
            balancer.listeners[port] = await asyncio.start_server(connected, self._address, port)
        except OSError as error:
            log.warning("the load balancer of %s/%s cannot listen at %s:%d: %s", *key, self._address, port, error)

    async def _announce(self, key: tuple[str, str], service: Object) -> None:
        """Write the address into the Service's status, where the controller writes the load balancer's name."""
        ingress = [{"ip": self._address, "ipMode": "VIP"}]
        if (service.get("status") or {}).get("loadBalancer", {}).get("ingress") == ingress:
            return
        path = f"{object_path('v1', 'services', *key)}/status"
        with contextlib.suppress(KubeError):
            await self._api.patch(path, {"status": {"loadBalancer": {"ingress": ingress}}}, kind="merge")

    async def _remove(self, key: tuple[str, str]) -> None:
        balancer, task = self._balancers.pop(key, None), self._tasks.pop(key, None)
        if balancer is None or task is None:
            return
        task.cancel()
        for check in balancer.checks.values():
            check.cancel()
        for listener in balancer.listeners.values():
            listener.close()

    async def _follow_targets(self, key: tuple[str, str], balancer: _Balancer) -> None:
        async for slices in follow_slices(self._api, *key):
            wanted = targets(slices)
            for address in balancer.targets.keys() - wanted:
                del balancer.targets[address]
                balancer.checks.pop(address).cancel()
            for address in wanted - balancer.targets.keys():
                target = balancer.targets[address] = Target(address)
                balancer.checks[address] = asyncio.create_task(_keep_checking(target, balancer.check))

    async def _carry(
        self, balancer: _Balancer, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Forward one connection to a healthy target; if none is healthy, to any, like a network load balancer."""
        all_targets = list(balancer.targets.values())
        taking = [target for target in all_targets if target.healthy] or all_targets
        with contextlib.suppress(OSError, TimeoutError):
            if taking:
                address = random.choice(taking).address  # noqa: S311 - it spreads load
                async with asyncio.timeout(_CONNECT_SECONDS):
                    from_target, to_target = await asyncio.open_connection(address, port)
                await asyncio.gather(_pump(reader, to_target), _pump(from_target, writer), return_exceptions=True)
                to_target.close()
        writer.close()


def targets(slices: Iterable[Object]) -> set[str]:
    """Return the addresses of a load balancer's targets: pods that are not terminating, ready or not."""
    endpoints = [endpoint for part in slices for endpoint in part.get("endpoints") or []]
    staying = [one for one in endpoints if not (one.get("conditions") or {}).get("terminating")]
    return {pod_addresses.loopback(address) for one in staying for address in one["addresses"]}


async def _keep_checking(target: Target, check: HealthCheck) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=check.timeout) as client:
        while True:
            try:
                answer = await client.get(
                    f"http://{target.address}:{check.port}{check.path}", headers={"connection": "close"}
                )
                target.record(200 <= answer.status_code < 400, check)
            except httpx.HTTPError:
                target.record(False, check)
            await asyncio.sleep(check.interval if target.healthy else min(check.interval, _AGAIN_SECONDS))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes in one direction until the end, and then signal the end to the other side."""
    try:
        while data := await reader.read(_BLOCK):
            writer.write(data)
            await writer.drain()
    finally:
        with contextlib.suppress(OSError):
            if writer.can_write_eof():
                writer.write_eof()


def _is_balanced(service: Mapping[str, Any]) -> bool:
    spec = service["spec"]
    return spec.get("type") == "LoadBalancer" and spec.get("loadBalancerClass") == _CLASS


def _key(service: Object) -> tuple[str, str]:
    return service["metadata"]["namespace"], service["metadata"]["name"]
