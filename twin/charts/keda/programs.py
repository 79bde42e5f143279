"""KEDA's real operator and metrics server as local processes, if the program installs the chart `keda`.

Flags and environment: docs/facts/local-control-plane.md#keda-as-processes. The operator scales. The metrics server answers
the HorizontalPodAutoscalers that the operator creates, through the API server's aggregation. The chart's webhooks do not
run, so a second ScaledObject for the same target is not refused here. Everything listens on 127.0.0.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from twin.host import ports, processes, tools
from twin.host.processes import Service
from twin.identity import irsa
from twin.releases import programs
from twin.releases.api_aggregation import AggregatedApi
from twin.releases.chart import Announce, ChartContext, Release
from twin.releases.program_files import ProgramFiles
from twin.releases.programs import Program, keep_running

FAMILY = "keda"
OPERATOR, ADAPTER = "keda-operator", "keda-adapter"
_ACCOUNT = "keda-operator"
_AWS_TOKEN = "aws-token"
_METRICS = AggregatedApi("external.metrics.k8s.io", "v1beta1", "keda-metrics-apiserver", part_of=_ACCOUNT)
_PORTS = {"keda-metrics": OPERATOR, "keda-health": OPERATOR, "keda-grpc": OPERATOR, "keda-external-metrics": ADAPTER}
"""The kept ports, by name, with their programs."""
_HTTP_TIMEOUT_MILLISECONDS = 3000
"""The chart's default for `http.timeout`."""


class Keda:
    """The programs of the chart (`releases.chart.ChartPrograms`)."""

    def __init__(self, context: ChartContext) -> None:
        self._context = context
        self._home = context.home
        self._files = ProgramFiles(context, "keda", _ACCOUNT, {_AWS_TOKEN: irsa.DEFAULT_AUDIENCE})

    async def run(self, release: Release, ready: Announce) -> None:
        """Run both programs, and register the metrics server for external metrics. See ChartPrograms."""
        built = tools.built((FAMILY,))
        names = (OPERATOR, "localhost", f"{_METRICS.service}.{release.namespace}.svc")
        async with self._files.kept_fresh(release.namespace, names):
            role = await self._files.role(release.namespace)
            listen = {name: self._port(name, of) for name, of in _PORTS.items()}
            metrics_port = listen["keda-external-metrics"]
            operator = (str(built[OPERATOR]), *self._operator_flags(listen))
            adapter = (str(built[ADAPTER]), *self._adapter_flags(listen))

            async def aggregated() -> None:
                await _METRICS.register(self._context.api, release.namespace, metrics_port, self._files.authority)
                await ready()

            async with httpx.AsyncClient(verify=self._files.trusting(), trust_env=False, timeout=5.0) as client:

                def program(service: Service, url: str) -> Program:
                    return Program(service, lambda: programs.answers(client, url))

                running = [
                    program(
                        self._files.service(OPERATOR, operator, self._operator_environment(release, role)),
                        f"http://127.0.0.1:{listen['keda-health']}/readyz",
                    ),
                    program(self._files.service(ADAPTER, adapter), f"https://127.0.0.1:{metrics_port}/readyz"),
                ]
                await keep_running(self._home, running, aggregated)

    async def remove(self) -> None:
        """Stop the programs of a release. See ChartPrograms."""
        await _METRICS.remove(self._context.api)
        for name in (ADAPTER, OPERATOR):
            await programs.stop(self._home, name)

    def _port(self, name: str, of: str) -> int:
        return ports.keep(self._home, name, held=processes.find(self._home, of) is not None)

    def _operator_flags(self, listen: Mapping[str, int]) -> list[str]:
        return [
            f"--cert-dir={self._files.directory}",
            # With rotation it writes a Secret, exits, and must be started again to read it.
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
            *self._files.delegated_flags(),
            f"--secure-port={listen['keda-external-metrics']}",
            f"--metrics-service-address=127.0.0.1:{listen['keda-grpc']}",
        ]

    def _operator_environment(self, release: Release, role: str | None) -> dict[str, str]:
        restricted = _at(release.values, "permissions", "operator", "restrict", "secret") is True
        return {
            "KUBECONFIG": str(self._files.kubeconfig),
            "POD_NAMESPACE": release.namespace,
            "WATCH_NAMESPACE": "",
            "KEDA_CLUSTER_OBJECT_NAMESPACE": release.namespace,
            "KEDA_RESTRICT_SECRET_ACCESS": str(restricted).lower(),
            "KEDA_HTTP_DEFAULT_TIMEOUT": str(_at(release.values, "http", "timeout") or _HTTP_TIMEOUT_MILLISECONDS),
            **self._files.proxied(),
            **self._files.in_aws(role, _AWS_TOKEN),
        }


def _at(values: Mapping[str, Any], *keys: str) -> Any:
    found: Any = values
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found
