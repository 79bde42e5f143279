"""The real prometheus-adapter as a process of this machine, where the program installs the chart `prometheus-adapter`.

It answers the HorizontalPodAutoscalers that scale on custom metrics, through the API server's aggregation, with what it asks
Prometheus by the rules of the chart's values. One process, whatever `replicas` says; it listens on 127.0.0.1.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import yaml

from spec.files import write_whole
from twin.charts import chart_programs
from twin.charts.api_aggregation import AggregatedApi
from twin.charts.chart_programs import STOP_ORDER, Announce, ChartFailed, Installed, Program, keep_running
from twin.cluster import certificates
from twin.cluster.certificates import Pki
from twin.cluster.kube_api import KubeApi
from twin.host import ports, processes, tools
from twin.host.home import TwinHome
from twin.host.processes import Service
from twin.identity.account_tokens import TokenFiles

CHART = "prometheus-adapter"
"""Of the chart, its release, its service account, its Service, and the program."""
# The one version of the group that the chart registers; the adapter itself serves v1beta2 too.
_METRICS = AggregatedApi("custom.metrics.k8s.io", "v1beta1", CHART, part_of=CHART)
_DEFAULT_PROMETHEUS = {"url": "http://prometheus.default.svc", "port": 9090, "path": ""}
_DEFAULT_RELIST_INTERVAL = "1m"


class PrometheusAdapter:
    """What stands for the chart (`chart_programs.ChartPrograms`)."""

    def __init__(self, home: TwinHome, api: KubeApi, *, api_server_url: str, proxy_url: str) -> None:
        """`proxy_url` is cluster_proxy's, through which the name of Prometheus's Service leads to its pods."""
        self._home = home
        self._api = api
        self._api_server_url = api_server_url
        self._proxy_url = proxy_url
        self._pki = Pki(home.pki)
        self._directory = home.path / CHART
        self._kubeconfig = self._directory / "kubeconfig"
        self._config = self._directory / "config.yaml"
        self._token = self._directory / "token"

    async def run(self, release: Installed, ready: Announce) -> None:
        """See chart_programs.ChartPrograms."""
        binary = tools.built((CHART,))[CHART]
        config = configuration(release.values)
        tokens = TokenFiles(self._api, release.namespace, CHART, {self._token: ""})
        await tokens.renew()
        self._write_files(release.namespace, config)
        port = ports.keep(self._home, CHART, held=processes.find(self._home, CHART) is not None)
        service = self._service(binary, release.values, port)
        renewing = asyncio.create_task(tokens.keep_fresh())
        try:
            async with httpx.AsyncClient(verify=self._trusting(), trust_env=False, timeout=5.0) as client:

                async def aggregated() -> None:
                    await _METRICS.register(self._api, release.namespace, port, self._pki.ca)
                    await ready()

                url = f"https://127.0.0.1:{port}/readyz"
                program = Program(service, lambda: chart_programs.answers(client, url))
                await keep_running(self._home, [program], aggregated)
        finally:
            renewing.cancel()

    async def remove(self) -> None:
        """See chart_programs.ChartPrograms."""
        await _METRICS.remove(self._api)
        await chart_programs.stop(self._home, CHART)

    def _write_files(self, namespace: str, config: str) -> None:
        names = (CHART, "localhost", f"{_METRICS.service}.{namespace}.svc")
        certificates.ensure_mutual(self._pki, self._directory, names)
        certificates.write_token_kubeconfig(self._kubeconfig, self._pki, CHART, self._token, self._api_server_url)
        write_whole(self._config, config.encode())

    def _trusting(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self._pki.ca))

    def _service(self, binary: Path, values: Mapping[str, Any], port: int) -> Service:
        certificate, key = self._directory / "tls.crt", self._directory / "tls.key"
        argv = (
            str(binary),
            *(f"--{use}-kubeconfig={self._kubeconfig}" for use in ("lister", "authentication", "authorization")),
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self._directory}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--config={self._config}",
            f"--prometheus-url={_prometheus_url(values)}",
            f"--metrics-relist-interval={values.get('metricsRelistInterval', _DEFAULT_RELIST_INTERVAL)}",
        )
        env = {
            "PATH": os.defpath,
            "HOME": str(self._directory),
            "TMPDIR": str(self._home.temporary),
            # HTTPS too: what is on this machine needs no proxy, and the proxy refuses everything else.
            "HTTP_PROXY": self._proxy_url,
            "HTTPS_PROXY": self._proxy_url,
            "NO_PROXY": "127.0.0.1,localhost",
        }
        files = (certificate, self._kubeconfig, self._config)
        digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
        return Service(CHART, argv, env, self._directory, stop_order=STOP_ORDER, depends_on=digest)


def configuration(values: Mapping[str, Any]) -> str:
    """The adapter's configuration file, as the chart makes it of its values.

    Raises ChartFailed for rules of another kind than `custom`, which are on unless the values say otherwise.
    """
    rules = values.get("rules") or {}
    unwanted = [kind for kind in ("default", "existing", "external", "resource") if rules.get(kind, kind == "default")]
    if unwanted:
        found = ", ".join(f"rules.{kind}" for kind in unwanted)
        raise ChartFailed(
            f"the chart {CHART} is given rules of another kind than `custom`: {found}. The twin has the custom metrics API "
            "alone, and none of the chart's own rules: set `rules.default: false` and leave out the others"
        )
    return yaml.safe_dump({"rules": rules.get("custom") or []}, sort_keys=False)


def _prometheus_url(values: Mapping[str, Any]) -> str:
    prometheus = {**_DEFAULT_PROMETHEUS, **(values.get("prometheus") or {})}
    port = f":{prometheus['port']}" if prometheus["port"] else ""
    return f"{prometheus['url']}{port}{prometheus['path']}"
