"""The chart kube-prometheus-stack on the twin: the real prometheus-operator as a process, and its Prometheus.

From PodMonitors, ServiceMonitors and PrometheusRules, the operator creates the configuration of Prometheus and a
StatefulSet, whose pods run as processes too (pods.py). Alertmanager, Grafana, kube-state-metrics, the node exporter and the
chart's own rules do not run.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Collection
from pathlib import Path

import httpx

from twin.charts.kube_prometheus_stack import objects, pods
from twin.cluster import certificates
from twin.cluster.certificates import Pki
from twin.cluster.kube_api import Object, object_path
from twin.cluster.kube_errors import ApiError
from twin.host import ports, processes, tools
from twin.host.processes import Service
from twin.releases.chart import Announce, ChartContext, ChartFailed, Release
from twin.releases.programs import STOP_ORDER, Program, answers, keep_running, stop

NAME = "prometheus-operator"
_RELOADER_IMAGE = "quay.io/prometheus-operator/prometheus-config-reloader"
_AVAILABLE_SECONDS = 120.0
"""Prometheus answers its startup probe at the second try, 15 s after the first; a busy machine needs more."""
_POLL_SECONDS = 0.5
_REFUSED = (400, 422)


class PrometheusStack:
    """The programs of the chart (`releases.chart.ChartPrograms`)."""

    def __init__(self, context: ChartContext) -> None:
        self._home = context.home
        self._api = context.api
        self._server = context.api_server_url

    async def run(self, release: Release, ready: Announce) -> None:
        """Create the release's objects and keep the operator running. It is ready when Prometheus itself is."""
        programs = tools.built(pods.FAMILIES)
        made = objects.objects(release.name, release.namespace, release.values, self._server)
        for path, item in made:
            await self._apply(path, item)
        await self._remove_objects(keep={path for path, _ in made})
        prometheus = next(path for path, item in made if item["kind"] == "Prometheus")

        async def announce() -> None:
            await self._until_available(prometheus)
            await ready()

        async with httpx.AsyncClient(trust_env=False, timeout=5.0) as client:
            await keep_running(self._home, [self._operator(programs[NAME], client)], announce)

    async def remove(self) -> None:
        """Delete the objects, on which all others depend, and stop the operator."""
        await self._remove_objects(keep=())
        await stop(self._home, NAME)

    def _operator(self, binary: Path, client: httpx.AsyncClient) -> Program:
        pki = Pki(self._home.pki)
        identity = pki.client(certificates.PROMETHEUS_OPERATOR)
        port = ports.keep(self._home, NAME, held=processes.find(self._home, NAME) is not None)
        argv = (
            str(binary),
            f"--apiserver={self._server}",
            f"--ca-file={pki.ca}",
            f"--cert-file={identity.certificate}",
            f"--key-file={identity.key}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--localhost=127.0.0.1",
            f"--prometheus-config-reloader={_RELOADER_IMAGE}:{tools.FAMILIES[NAME].version()}",
        )
        files = (pki.ca, identity.certificate)
        service = Service(
            NAME,
            argv,
            {"PATH": os.defpath, "HOME": str(self._home.path), "TMPDIR": str(self._home.temporary)},
            self._home.path,
            stop_order=STOP_ORDER,
            depends_on=hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest(),
        )
        return Program(service, lambda: answers(client, f"http://127.0.0.1:{port}/healthz"))

    async def _apply(self, path: str, item: Object) -> None:
        try:
            await self._api.apply(path, item)
        except ApiError as error:
            if error.status not in _REFUSED:
                raise
            raise ChartFailed(
                f"the API server refuses the {item['kind']} {item['metadata']['name']} that the values of "
                f"{objects.CHART} make: {error}"
            ) from error

    async def _until_available(self, path: str) -> None:
        deadline = time.monotonic() + _AVAILABLE_SECONDS
        while (state := _availability(await self._api.get(path))).get("status") != "True":
            if time.monotonic() > deadline:
                namespace, _, name = path.partition("/namespaces/")[2].split("/")
                raise ChartFailed(
                    f"Prometheus {namespace}/{name} is not available after {_AVAILABLE_SECONDS:.0f} s: "
                    f"{state.get('message') or state.get('reason') or 'its operator says nothing of it'}; "
                    f"`kubectl describe pods --namespace {namespace}` has the pod's events, and the operator's log is "
                    f"{self._home.logs / NAME}.log"
                )
            await asyncio.sleep(_POLL_SECONDS)

    async def _remove_objects(self, keep: Collection[str]) -> None:
        selector = f"{objects.LABEL}={objects.CHART}"
        for api_version, _, plural in objects.KINDS:
            found = await self._api.find(object_path(api_version, plural), labelSelector=selector)
            for metadata in (item["metadata"] for item in (found or {"items": []})["items"]):
                path = object_path(api_version, plural, metadata.get("namespace"), metadata["name"])
                if path not in keep:
                    await self._api.delete(path)


def _availability(prometheus: Object) -> Object:
    """Return the condition `Available` if it is for the current specification; else {}."""
    generation = prometheus["metadata"].get("generation")
    conditions = (prometheus.get("status") or {}).get("conditions") or []
    found = (c for c in conditions if c["type"] == "Available" and c.get("observedGeneration") == generation)
    condition: Object = next(found, {})
    return condition
