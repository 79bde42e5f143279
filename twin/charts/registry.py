"""Every third-party chart that the program installs, with what stands for it, and every program that pods are run as.

A chart needs a record only for more than its name: for what to tell of it, for kinds of its own, or for programs, and then
the record lies in a folder of its own beside this module.
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
        # The chart, of version 3.2.2, and the policy are in the module; no kind of its own is used here.
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
"""By the chart's name: each one that is pinned."""

POD_PROGRAMS = PodPrograms(
    (TRITON, WORKER, COMPARER, MODELCTL, *(program for chart in CHARTS.values() for program in chart.pods))
)


def families(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the families of programs (twin/host/tools.py) that a stack needs beside those of every twin.

    `config` is what stands below that key of its file, which need not have been checked.
    """
    return tuple(family for chart in CHARTS.values() for family in chart.families if chart.installed_by(config))
