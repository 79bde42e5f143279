"""OpenCost: what each namespace, workload and GPU costs, from the cluster's own metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra.platform import charts
from infra.platform.third_party import release
from spec.names import MONITORING_NAMESPACE, PROMETHEUS_PORT, PROMETHEUS_SERVICE
from spec.versions import OPENCOST


@dataclass(frozen=True)
class OpenCostArgs:
    """`namespace`: an existing one. `cluster_name`: what its figures are labelled with."""

    kubernetes: k8s.Provider
    namespace: str
    cluster_name: str


class OpenCost(pulumi.ComponentResource):
    """The pinned chart, on the stack's own Prometheus, without a role: AWS's public prices are what it reads.

    Give `opts.depends_on` what serves the kind ServiceMonitor, and Prometheus: it ends where there is none.
    """

    def __init__(self, name: str, args: OpenCostArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:platform:OpenCost", name, None, opts)
        release(
            f"{name}-release",
            OPENCOST,
            args.namespace,
            values(args.cluster_name),
            pulumi.ResourceOptions(parent=self, provider=args.kubernetes),
        )
        self.register_outputs({})


def values(cluster_name: str) -> dict[str, Any]:
    """The chart's values: `helm-values/opencost/base.yaml` and what follows from the stack."""
    computed = {
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
    }
    return charts.merge(charts.base_values(OPENCOST.name), computed)
