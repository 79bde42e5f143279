"""Envoy Gateway: its real controller, and the real Envoys that the controller creates."""

from collections.abc import Mapping
from typing import Any

from spec.charts import ENVOY_GATEWAY
from twin.charts.envoy_gateway.pods import ENVOY, FAMILY, SHUTDOWN_MANAGER
from twin.releases.chart import Chart, ChartContext, ChartPrograms, GoModule


def _programs(context: ChartContext) -> ChartPrograms:
    from twin.charts.envoy_gateway.controller import EnvoyGateway  # only the agent needs it

    return EnvoyGateway(context)


def _installed_by(config: Mapping[str, Any]) -> bool:
    return config.get("triton-eks:gateway") is not None


CHART = Chart(
    ENVOY_GATEWAY,
    "its real controller, from its Go module, runs as a process, and the Envoys that it makes as pods' processes behind a "
    "load balancer of the twin; its rights are an administrator's, and its own pods are not there",
    # The module contains the chart, with the experimental channel of the Gateway API.
    GoModule("github.com/envoyproxy/gateway", ENVOY_GATEWAY.version),
    definitions="charts/gateway-helm/charts/crds/crds/**/*.yaml",
    families=(FAMILY,),
    installed_by=_installed_by,
    programs=_programs,
    pods=(ENVOY, SHUTDOWN_MANAGER),
)
