"""prometheus-adapter: its real program."""

from spec.charts import PROMETHEUS_ADAPTER
from twin.releases.chart import Accounts, Chart, ChartContext, ChartPrograms, GoModule
from twin.releases.scalers import scalers


def _programs(context: ChartContext) -> ChartPrograms:
    from twin.charts.prometheus_adapter.program import PrometheusAdapter  # only the agent needs it

    return PrometheusAdapter(context)


CHART = Chart(
    PROMETHEUS_ADAPTER,
    "its real program, from its Go module, run as one process that answers for custom metrics",
    # The version that the pinned chart runs; twin/tools/prometheus-adapter builds the same.
    GoModule("sigs.k8s.io/prometheus-adapter", "v0.12.0"),
    accounts=Accounts(
        (
            "deploy/manifests/service-account.yaml",
            "deploy/manifests/cluster-role.yaml",
            "deploy/manifests/cluster-role-binding.yaml",
            "deploy/manifests/cluster-role-binding-delegator.yaml",
            "deploy/manifests/role-binding-auth-reader.yaml",
        ),
        namespace="monitoring",
    ),
    families=("prometheus-adapter",),
    installed_by=lambda config: "hpa" in scalers(config),
    programs=_programs,
)
