"""KEDA's real operator and metrics server as processes of this machine, where the program installs the chart `keda`.

Flags and environment: docs/facts/local-control-plane.md#keda-as-processes. The operator scales; the metrics server
answers the HorizontalPodAutoscalers that the operator makes, through the API server's aggregation. The chart's webhooks
are not there, so a second ScaledObject of the same target is not refused here. Everything listens on 127.0.0.1.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from twin.charts import chart_programs
from twin.charts.api_aggregation import AggregatedApi
from twin.charts.chart_programs import STOP_ORDER, Announce, Installed, Program, keep_running
from twin.cluster import certificates
from twin.cluster.certificates import Pki
from twin.cluster.kube_api import KubeApi
from twin.host import ports, processes, tools
from twin.host.home import TwinHome
from twin.host.processes import Service
from twin.identity import irsa
from twin.identity.account_tokens import TokenFiles

CHART = "keda"
OPERATOR, ADAPTER = "keda-operator", "keda-adapter"
_ACCOUNT = "keda-operator"
_METRICS = AggregatedApi("external.metrics.k8s.io", "v1beta1", "keda-metrics-apiserver", part_of=_ACCOUNT)
_HTTP_TIMEOUT_MILLISECONDS = 3000
"""The chart's default for `http.timeout`."""


@dataclass(frozen=True)
class Surroundings:
    """Where KEDA finds what it asks: URLs on loopback. `proxy_url` is cluster_proxy's, `sts_url` web_identity's."""

    api_server_url: str
    aws_url: str
    sts_url: str
    proxy_url: str
    region: str


class Keda:
    """The programs of the chart `keda`."""

    def __init__(self, home: TwinHome, api: KubeApi, surroundings: Surroundings) -> None:
        self._home = home
        self._api = api
        self._around = surroundings
        self._pki = Pki(home.pki)
        self._directory = home.path / "keda"
        self._kubeconfig = self._directory / "kubeconfig"
        self._token, self._aws_token = self._directory / "token", self._directory / "aws-token"

    async def run(self, release: Installed, ready: Announce) -> None:
        """See chart_programs.ChartPrograms."""
        built = tools.built((CHART,))
        tokens = self._tokens(release.namespace)
        await tokens.renew()
        role = await self._role(release.namespace)
        self._write_credentials(release.namespace)
        listen = {name: self._port(name, of) for name, of in _PORTS.items()}
        metrics_port = listen["keda-external-metrics"]
        operator = (str(built[OPERATOR]), *self._operator_flags(listen))
        adapter = (str(built[ADAPTER]), *self._adapter_flags(listen))
        renewing = asyncio.create_task(tokens.keep_fresh())
        try:
            async with httpx.AsyncClient(verify=self._trusting(), trust_env=False, timeout=5.0) as client:

                def program(service: Service, url: str) -> Program:
                    return Program(service, lambda: chart_programs.answers(client, url))

                async def aggregated() -> None:
                    await _METRICS.register(self._api, release.namespace, metrics_port, self._pki.ca)
                    await ready()

                programs = [
                    program(
                        self._service(OPERATOR, operator, self._operator_environment(release, role)),
                        f"http://127.0.0.1:{listen['keda-health']}/readyz",
                    ),
                    program(self._service(ADAPTER, adapter, {}), f"https://127.0.0.1:{metrics_port}/readyz"),
                ]
                await keep_running(self._home, programs, aggregated)
        finally:
            renewing.cancel()

    async def remove(self) -> None:
        """See chart_programs.ChartPrograms."""
        await _METRICS.remove(self._api)
        for name in (ADAPTER, OPERATOR):
            await chart_programs.stop(self._home, name)

    def _tokens(self, namespace: str) -> TokenFiles:
        files = {self._token: "", self._aws_token: irsa.DEFAULT_AUDIENCE}
        return TokenFiles(self._api, namespace, _ACCOUNT, files)

    async def _role(self, namespace: str) -> str | None:
        account = await self._api.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/{_ACCOUNT}")
        role: str | None = (account["metadata"].get("annotations") or {}).get(irsa.ROLE_ANNOTATION)
        return role

    def _write_credentials(self, namespace: str) -> None:
        names = (OPERATOR, "localhost", f"{_METRICS.service}.{namespace}.svc")
        certificates.ensure_mutual(self._pki, self._directory, names)
        server = self._around.api_server_url
        certificates.write_token_kubeconfig(self._kubeconfig, self._pki, _ACCOUNT, self._token, server)

    def _trusting(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self._pki.ca))

    def _port(self, name: str, of: str) -> int:
        return ports.keep(self._home, name, held=processes.find(self._home, of) is not None)

    def _service(self, name: str, argv: tuple[str, ...], env: Mapping[str, str]) -> Service:
        own = {"PATH": os.defpath, "HOME": str(self._directory), "TMPDIR": str(self._home.temporary)}
        files = (self._directory / "tls.crt", self._kubeconfig)
        digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
        return Service(name, argv, {**own, **env}, self._directory, stop_order=STOP_ORDER, depends_on=digest)

    def _operator_flags(self, listen: Mapping[str, int]) -> list[str]:
        return [
            f"--cert-dir={self._directory}",
            # With rotation it writes a Secret, exits, and wants to be started again to read it.
            "--enable-cert-rotation=false",
            "--enable-webhook-patching=false",
            "--enable-apiservice-patching=false",
            f"--metrics-bind-address=127.0.0.1:{listen['keda-metrics']}",
            f"--health-probe-bind-address=127.0.0.1:{listen['keda-health']}",
            f"--metrics-service-bind-address=127.0.0.1:{listen['keda-grpc']}",
            "--zap-encoder=console",
            "--zap-time-encoding=rfc3339",
        ]

    def _adapter_flags(self, listen: Mapping[str, int]) -> list[str]:
        return [
            *(f"--{use}-kubeconfig={self._kubeconfig}" for use in ("lister", "authentication", "authorization")),
            "--bind-address=127.0.0.1",
            f"--secure-port={listen['keda-external-metrics']}",
            f"--cert-dir={self._directory}",
            f"--tls-cert-file={self._directory / 'tls.crt'}",
            f"--tls-private-key-file={self._directory / 'tls.key'}",
            f"--metrics-service-address=127.0.0.1:{listen['keda-grpc']}",
        ]

    def _operator_environment(self, release: Installed, role: str | None) -> dict[str, str]:
        restricted = _at(release.values, "permissions", "operator", "restrict", "secret") is True
        environment = {
            "KUBECONFIG": str(self._kubeconfig),
            "POD_NAMESPACE": release.namespace,
            "WATCH_NAMESPACE": "",
            "KEDA_CLUSTER_OBJECT_NAMESPACE": release.namespace,
            "KEDA_RESTRICT_SECRET_ACCESS": str(restricted).lower(),
            "KEDA_HTTP_DEFAULT_TIMEOUT": str(_at(release.values, "http", "timeout") or _HTTP_TIMEOUT_MILLISECONDS),
            # HTTPS too: what is on this machine needs no proxy, and the proxy refuses everything else.
            "HTTP_PROXY": self._around.proxy_url,
            "HTTPS_PROXY": self._around.proxy_url,
            "NO_PROXY": "127.0.0.1,localhost",
            "AWS_ENDPOINT_URL": self._around.aws_url,
            "AWS_ENDPOINT_URL_STS": self._around.sts_url,
            "AWS_REGION": self._around.region,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }
        if role is not None:
            environment |= {"AWS_ROLE_ARN": role, "AWS_WEB_IDENTITY_TOKEN_FILE": str(self._aws_token)}
        return environment


_PORTS = {"keda-metrics": OPERATOR, "keda-health": OPERATOR, "keda-grpc": OPERATOR, "keda-external-metrics": ADAPTER}
"""The kept ports, by name, and whose they are."""


def _at(values: Mapping[str, Any], *keys: str) -> Any:
    found: Any = values
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found
