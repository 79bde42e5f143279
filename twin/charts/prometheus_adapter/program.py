"""The real prometheus-adapter as a local process, if the program installs the chart `prometheus-adapter`.

It answers HorizontalPodAutoscalers on custom metrics, through the API server's aggregation. It gets the metrics from
Prometheus, by the rules in the chart's values. It is one process, whatever `replicas` is, and listens on 127.0.0.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
import yaml

from spec.files import write_whole
from twin.host import ports, processes, tools
from twin.releases import programs
from twin.releases.api_aggregation import AggregatedApi
from twin.releases.chart import Announce, ChartContext, ChartFailed, Release
from twin.releases.program_files import ProgramFiles
from twin.releases.programs import Program, keep_running

NAME = "prometheus-adapter"
"""The name of the chart, its release, its service account, its Service, and the program."""
# The only version of the group that the chart registers; the adapter itself also serves v1beta2.
_METRICS = AggregatedApi("custom.metrics.k8s.io", "v1beta1", NAME, part_of=NAME)
_DEFAULT_PROMETHEUS = {"url": "http://prometheus.default.svc", "port": 9090, "path": ""}
_DEFAULT_RELIST_INTERVAL = "1m"


class PrometheusAdapter:
    """The program of the chart (`releases.chart.ChartPrograms`)."""

    def __init__(self, context: ChartContext) -> None:
        self._context = context
        self._home = context.home
        self._files = ProgramFiles(context, NAME, NAME)
        self._config = self._files.directory / "config.yaml"

    async def run(self, release: Release, ready: Announce) -> None:
        """Run the adapter, and register it for custom metrics. See ChartPrograms."""
        binary = tools.built((NAME,))[NAME]
        config = configuration(release.values)
        names = (NAME, "localhost", f"{_METRICS.service}.{release.namespace}.svc")
        async with self._files.kept_fresh(release.namespace, names):
            write_whole(self._config, config.encode())
            port = ports.keep(self._home, NAME, held=processes.find(self._home, NAME) is not None)
            argv = (str(binary), *self._flags(release.values, port))
            service = self._files.service(NAME, argv, self._files.proxied(), [self._config])

            async def aggregated() -> None:
                await _METRICS.register(self._context.api, release.namespace, port, self._files.authority)
                await ready()

            async with httpx.AsyncClient(verify=self._files.trusting(), trust_env=False, timeout=5.0) as client:
                program = Program(service, lambda: programs.answers(client, f"https://127.0.0.1:{port}/readyz"))
                await keep_running(self._home, [program], aggregated)

    async def remove(self) -> None:
        """Stop the program of a release. See ChartPrograms."""
        await _METRICS.remove(self._context.api)
        await programs.stop(self._home, NAME)

    def _flags(self, values: Mapping[str, Any], port: int) -> list[str]:
        return [
            *self._files.delegated_flags(),
            f"--secure-port={port}",
            f"--config={self._config}",
            f"--prometheus-url={_prometheus_url(values)}",
            f"--metrics-relist-interval={values.get('metricsRelistInterval', _DEFAULT_RELIST_INTERVAL)}",
        ]


def configuration(values: Mapping[str, Any]) -> str:
    """Return the adapter's configuration file, as the chart creates it from its values.

    Raises ChartFailed for rules of another kind than `custom`. The default rules are on unless the values disable them.
    """
    rules = values.get("rules") or {}
    unwanted = [kind for kind in ("default", "existing", "external", "resource") if rules.get(kind, kind == "default")]
    if unwanted:
        found = ", ".join(f"rules.{kind}" for kind in unwanted)
        raise ChartFailed(
            f"the chart {NAME} is given rules of another kind than `custom`: {found}. The twin has the custom metrics API "
            "alone, and none of the chart's own rules: set `rules.default: false` and leave out the others"
        )
    return yaml.safe_dump({"rules": rules.get("custom") or []}, sort_keys=False)


def _prometheus_url(values: Mapping[str, Any]) -> str:
    prometheus = {**_DEFAULT_PROMETHEUS, **(values.get("prometheus") or {})}
    port = f":{prometheus['port']}" if prometheus["port"] else ""
    return f"{prometheus['url']}{port}{prometheus['path']}"
