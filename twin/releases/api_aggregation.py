"""An API group that another server answers, as with a chart's APIService and Service on a cluster.

That server is a process of this machine: the Service is of type ExternalName and points to localhost.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from twin.cluster import certificates
from twin.cluster.kube_api import KubeApi, Object
from twin.releases.chart import ChartFailed

_AVAILABLE_SECONDS = 60.0
_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class AggregatedApi:
    """One version of an API group, and the name of the Service that answers for it. `part_of` labels both objects."""

    group: str
    version: str
    service: str
    part_of: str

    @property
    def name(self) -> str:
        """Return the name of the APIService."""
        return f"{self.version}.{self.group}"

    @property
    def path(self) -> str:
        """Return the path of the APIService."""
        return f"/apis/apiregistration.k8s.io/v1/apiservices/{self.name}"

    async def register(self, api: KubeApi, namespace: str, port: int, authority: Path) -> None:
        """Make the API server forward the group to 127.0.0.1:`port`, and wait until it does.

        The certificate there must be for `<service>.<namespace>.svc`, signed by the `authority` (a PEM file). Raises
        ChartFailed if the API server does not reach it.
        """
        await self._apply(api, namespace, port, authority)
        said = ""
        try:
            async with asyncio.timeout(_AVAILABLE_SECONDS):
                while True:
                    found = await api.get(self.path)
                    conditions = (found.get("status") or {}).get("conditions") or []
                    available: dict[str, str] = next((c for c in conditions if c["type"] == "Available"), {})
                    if available.get("status") == "True":
                        return
                    said = available.get("message", "")
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise ChartFailed(
                f"the API server did not reach {self.service}, which answers for {self.group}, "
                f"within {_AVAILABLE_SECONDS:g} s: {said}"
            ) from None

    async def remove(self, api: KubeApi) -> None:
        """Delete both objects, unless the group belongs to another server.

        The APIService is deleted first: while it exists without a server, no namespace can be deleted.
        """
        found = await api.find(self.path)
        service = (found or {}).get("spec", {}).get("service") or {}
        if service.get("name") == self.service:
            await api.delete(self.path)
            await api.delete(self._service_path(service["namespace"]))

    async def _apply(self, api: KubeApi, namespace: str, port: int, authority: Path) -> None:
        labels = {"app.kubernetes.io/part-of": self.part_of}
        service: Object = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": self.service, "namespace": namespace, "labels": labels},
            "spec": {
                "type": "ExternalName",
                "externalName": "localhost",
                "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
            },
        }
        api_service: Object = {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": self.name, "labels": labels},
            "spec": {
                "group": self.group,
                "version": self.version,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "service": {"name": self.service, "namespace": namespace, "port": port},
                "caBundle": certificates.embedded(authority),
            },
        }
        await api.apply(self._service_path(namespace), service)
        await api.apply(self.path, api_service)

    def _service_path(self, namespace: str) -> str:
        return f"/api/v1/namespaces/{namespace}/services/{self.service}"
