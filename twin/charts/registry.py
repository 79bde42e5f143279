"""All third-party charts that the program installs, with their substitutes, and all programs that run as pods.

A chart needs its own record only for a description, for its own kinds, or for programs. A chart with programs has a folder
next to this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spec import charts
from twin.charts import envoy_gateway, external_secrets, karpenter, keda, kube_prometheus_stack, prometheus_adapter
from twin.charts.modelctl import COMPARER, MODELCTL
from twin.charts.triton import TRITON
from twin.charts.triton_worker import WORKER
from twin.pods.program import PodPrograms
from twin.releases.chart import Chart, GoModule

_RECORDS = (
    kube_prometheus_stack.CHART,
    keda.CHART,
    prometheus_adapter.CHART,
    Chart(
        charts.AWS_LOAD_BALANCER_CONTROLLER,
        "no load balancer is made for a Service",
        # The module has the chart, of version 3.2.2, and the policy; this project does not use its own kinds.
        GoModule("sigs.k8s.io/aws-load-balancer-controller", "v0.0.0-20260423195125-93ff3b5fdaad"),
    ),
    envoy_gateway.CHART,
    external_secrets.CHART,
    Chart(charts.OPENTELEMETRY_COLLECTOR, "spans that Triton sends are lost"),
    Chart(charts.FLUENT_BIT, "logs of containers are sent nowhere"),
    Chart(charts.CLUSTER_AUTOSCALER, "node groups keep the size that they have"),
    karpenter.CHART,
    Chart(
        charts.KARPENTER_CRDS,
        "the kinds NodePool and EC2NodeClass are installed from its Go module",
        karpenter.MODULE,
        definitions="pkg/apis/crds/*.yaml",
    ),
    Chart(charts.DCGM_EXPORTER, "nodes of the twin have no GPUs to measure"),
    Chart(
        charts.NVIDIA_DEVICE_PLUGIN,
        "the node simulator advertises nvidia.com/gpu where the plugin's DaemonSet would run, by its sharing configuration",
    ),
)
CHARTS: Mapping[str, Chart] = {
    **{name: Chart(pin) for name, pin in charts.CHARTS.items()},
    **{chart.name: chart for chart in _RECORDS},
}
"""All pinned charts, by name."""

POD_PROGRAMS = PodPrograms(
    (TRITON, WORKER, COMPARER, MODELCTL, *(program for chart in CHARTS.values() for program in chart.pods))
)


def families(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the families of programs (twin/host/tools.py) that a stack needs in addition to every twin's.

    `config` is the section `config` of its file, which may be unchecked.
    """
    return tuple(family for chart in CHARTS.values() for family in chart.families if chart.installed_by(config))
