"""The ready pods of a Service, as they come and go."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from twin.cluster.kube_api import KubeApi, Object
from twin.cluster.pod_addresses import loopback


async def follow(api: KubeApi, namespace: str, service: str, tell: Callable[[list[str]], None]) -> None:
    """Tell where the ready pods of a Service listen (127.244.a.b, sorted): at once, and whenever that changes, for ever."""
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    slices: dict[str, Object] = {}
    told: list[str] | None = None
    async for kind, changed in api.watch(path, labelSelector=f"kubernetes.io/service-name={service}"):
        if kind == "SYNC":
            slices = {item["metadata"]["name"]: item for item in changed["items"]}
        elif kind == "DELETED":
            slices.pop(changed["metadata"]["name"], None)
        else:
            slices[changed["metadata"]["name"]] = changed
        addresses = ready(slices.values())
        if addresses != told:
            told = addresses
            tell(addresses)


def ready(slices: Iterable[Object]) -> list[str]:
    """Return where the pods listen that take new requests, each once; one that ends is not among them."""
    endpoints: list[dict[str, Any]] = [endpoint for item in slices for endpoint in item.get("endpoints") or []]
    taking = [endpoint for endpoint in endpoints if (endpoint.get("conditions") or {}).get("ready")]
    return sorted({loopback(address) for endpoint in taking for address in endpoint["addresses"]})
