"""Look up the cluster's Services by name, and the addresses of their ready pods on this machine.

The cluster's DNS (dns.py), its HTTP proxy (proxy.py), its load balancers (load_balancer.py) and the load generator share
this look-up.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable

from twin.cluster import pod_addresses
from twin.cluster.kube_api import KubeApi, Object

_NAME = re.compile(r"([a-z0-9-]+)\.([a-z0-9-]+)(?:\.svc(?:\.cluster\.local)?)?")
"""The names that a pod's resolver finds by its search domains: `service.namespace`, with `.svc` or `.svc.cluster.local`."""


class ClusterServices:
    """Reads the API at each call. Its methods raise KubeError."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api

    async def addresses(self, name: str) -> list[str] | None:
        """Return the sorted addresses of a Service's ready pods; None if there is no Service `name`."""
        found = await self._find(name)
        if found is None:
            return None
        _, slices = found
        return _listening(slices)

    async def listeners(self, name: str, port: int) -> list[tuple[str, int]] | None:
        """Return sorted address and port of each ready pod behind a Service's `port`; None if it has no such port.

        A headless Service does not translate ports: its names lead to the pods themselves.
        """
        found = await self._find(name)
        if found is None:
            return None
        spec, slices = found
        if spec.get("clusterIP") == "None":
            return [(address, port) for address in _listening(slices)]
        named = [entry.get("name", "") for entry in spec.get("ports") or [] if entry["port"] == port]
        if not named:
            return None
        return sorted(
            {
                (address, target["port"])
                for one in slices
                for target in one.get("ports") or []
                if target.get("name", "") == named[0]
                for address in _listening([one])
            }
        )

    async def _find(self, name: str) -> tuple[Object, list[Object]] | None:
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        service, namespace = match.groups()
        found = await self._api.find(f"/api/v1/namespaces/{namespace}/services/{service}")
        if found is None:
            return None
        listed = await self._api.get(_slices(namespace), labelSelector=of_service(service))
        return found.get("spec") or {}, listed["items"]

    async def follow(self, namespace: str, service: str, tell: Callable[[list[str]], None]) -> None:
        """Call `tell` with the sorted addresses of a Service's ready pods: at once, and after each change, forever."""
        told: list[str] | None = None
        async for slices in follow_slices(self._api, namespace, service):
            addresses = _listening(slices)
            if addresses != told:
                told = addresses
                tell(addresses)


async def follow_slices(api: KubeApi, namespace: str, service: str) -> AsyncIterator[list[Object]]:
    """Yield all EndpointSlices of a Service: at once, and after each change of one of them, forever."""
    slices: dict[str, Object] = {}
    async for kind, changed in api.watch(_slices(namespace), labelSelector=of_service(service)):
        if kind == "SYNC":
            slices = {item["metadata"]["name"]: item for item in changed["items"]}
        elif kind == "DELETED":
            slices.pop(changed["metadata"]["name"], None)
        else:
            slices[changed["metadata"]["name"]] = changed
        yield list(slices.values())


def of_service(service: str) -> str:
    """Return the selector of a Service's EndpointSlices."""
    return f"kubernetes.io/service-name={service}"


def ready(slices: Iterable[Object]) -> list[str]:
    """Return the addresses in the API that take new requests, sorted and unique, without terminating pods."""
    endpoints = [endpoint for part in slices for endpoint in part.get("endpoints") or []]
    taking = [endpoint for endpoint in endpoints if (endpoint.get("conditions") or {}).get("ready")]
    return sorted({address for endpoint in taking for address in endpoint["addresses"]})


def _listening(slices: Iterable[Object]) -> list[str]:
    return [pod_addresses.loopback(address) for address in ready(slices)]


def _slices(namespace: str) -> str:
    return f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
