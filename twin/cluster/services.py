"""The cluster's Services by their names, and where their ready pods listen on this machine.

One look-up for both that answer for a Service: the cluster's DNS (cluster_dns.py) and its HTTP proxy (cluster_proxy.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from twin.cluster import pod_addresses
from twin.cluster.kube_api import KubeApi, Object

_NAME = re.compile(r"([a-z0-9-]+)\.([a-z0-9-]+)(?:\.svc(?:\.cluster\.local)?)?")
"""The names that a pod's resolver finds by its search domains: `service.namespace`, with `.svc` or `.svc.cluster.local`."""


class ClusterServices:
    """Reads the API at each question. Its methods raise KubeError."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api

    async def addresses(self, name: str) -> list[str] | None:
        """Return where the ready pods of a Service listen, sorted; None when `name` is not that of a Service."""
        found = await self._find(name)
        if found is None:
            return None
        _, slices = found
        return sorted({address for one in slices for address in _ready(one)})

    async def listeners(self, name: str, port: int) -> list[tuple[str, int]] | None:
        """Return address and port of each ready pod behind `port` of a Service, sorted; None when there is no such port.

        A headless Service does not translate ports: its names lead to the pods themselves.
        """
        found = await self._find(name)
        if found is None:
            return None
        spec, slices = found
        if spec.get("clusterIP") == "None":
            return sorted({(address, port) for one in slices for address in _ready(one)})
        named = [entry.get("name", "") for entry in spec.get("ports") or [] if entry["port"] == port]
        if not named:
            return None
        return sorted(
            {
                (address, target["port"])
                for one in slices
                for target in one.get("ports") or []
                if target.get("name", "") == named[0]
                for address in _ready(one)
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
        path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        listed = await self._api.get(path, labelSelector=f"kubernetes.io/service-name={service}")
        return found.get("spec") or {}, listed["items"]


def _ready(endpoint_slice: dict[str, Any]) -> Iterator[str]:
    for endpoint in endpoint_slice.get("endpoints") or []:
        if (endpoint.get("conditions") or {}).get("ready"):
            yield from map(pod_addresses.loopback, endpoint["addresses"])
