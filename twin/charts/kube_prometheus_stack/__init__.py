"""kube-prometheus-stack: its real operator, and the real Prometheus that the operator creates."""

from spec.charts import KUBE_PROMETHEUS_STACK
from twin.charts.kube_prometheus_stack.pods import FAMILIES, PROMETHEUS, RELOADER
from twin.releases.chart import Chart, ChartContext, ChartPrograms, GoModule


def _programs(context: ChartContext) -> ChartPrograms:
    from twin.charts.kube_prometheus_stack.operator import PrometheusStack  # only the agent needs it

    return PrometheusStack(context)


CHART = Chart(
    KUBE_PROMETHEUS_STACK,
    "its real operator and Prometheus, from their Go modules, run as processes, on the program's monitors and rules; "
    "its own rules, Alertmanager, Grafana, kube-state-metrics and the node exporter do not",
    # The pinned chart's version (docs/facts/charts.md#definitions). JSON files, because reading YAML takes seconds.
    GoModule("github.com/prometheus-operator/prometheus-operator", "v0.93.1"),
    definitions="jsonnet/prometheus-operator/*-crd.json",
    families=FAMILIES,
    installed_by=lambda config: config.get("triton-eks:monitoring") is not None,
    programs=_programs,
    pods=(PROMETHEUS, RELOADER),
)
