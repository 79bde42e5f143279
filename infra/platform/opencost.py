"""OpenCost: the cost of each namespace, workload and GPU, from the cluster's own metrics."""

from __future__ import annotations

from typing import Any

import pulumi

from infra.aws.cluster_access import ClusterAccess
from infra.platform.installed_chart import InstalledChart, chart_values
from spec.charts import OPENCOST
from spec.names import MONITORING_NAMESPACE, PROMETHEUS_PORT, PROMETHEUS_SERVICE


class OpenCost(InstalledChart):
    """The pinned chart in the monitoring namespace, without a role, because it reads only AWS's public prices.

    `opts.depends_on` has to name the monitoring, which creates that namespace and installs the kind ServiceMonitor. OpenCost
    exits if there is no Prometheus.
    """

    def __init__(self, name: str, cluster: ClusterAccess, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:platform:OpenCost", name, cluster, opts)
        self._install(OPENCOST, MONITORING_NAMESPACE, values(cluster.known_name))
        self.register_outputs({})


def values(cluster_name: str) -> dict[str, Any]:
    """Return the chart's values. OpenCost labels its metrics with `cluster_name`."""
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
