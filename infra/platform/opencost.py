"""OpenCost: the cost of each namespace, workload and GPU, from the cluster's own metrics."""

from __future__ import annotations

from typing import Any

import pulumi

from infra.aws.cluster_access import ClusterAccess
from infra.platform.installed_chart import InstalledChart, chart_values
from spec.charts import OPENCOST
from spec.names import MONITORING_NAMESPACE, PROMETHEUS_PORT, PROMETHEUS_SERVICE


class OpenCost(InstalledChart):
    """The pinned chart in the namespace of the monitoring, without a role: it reads AWS's public prices only.

    Give `opts.depends_on` the monitoring, which brings that namespace and the kind ServiceMonitor: OpenCost ends where there
    is no Prometheus.
    """

    def __init__(self, name: str, cluster: ClusterAccess, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:platform:OpenCost", name, cluster, opts)
        self._install(OPENCOST, MONITORING_NAMESPACE, values(cluster.known_name))
        self.register_outputs({})


def values(cluster_name: str) -> dict[str, Any]:
    """Return the chart's values. Its figures are labelled with `cluster_name`."""
    return chart_values(
        OPENCOST,
        {
            "opencost": {
                "exporter": {"defaultClusterId": cluster_name},
                "prometheus": {
                    "internal": {
                        "enabled": True,
                        "serviceName": PROMETHEUS_SERVICE,
                        "namespaceName": MONITORING_NAMESPACE,
                        "port": PROMETHEUS_PORT,
                    }
                },
            }
        },
    )
