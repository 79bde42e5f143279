"""KEDA: reads the load from Prometheus and SQS, and scales with its own HorizontalPodAutoscalers."""

from __future__ import annotations

from typing import Any

import pulumi

from infra.aws.cluster_access import ClusterAccess
from infra.aws.identity import WorkloadRoleArgs
from infra.platform.installed_chart import InstalledChart, chart_values
from spec.charts import KEDA
from spec.names import KEDA_OPERATOR


class Keda(InstalledChart):
    """The pinned chart with its CRDs, and the identity of its operator.

    The operator's role has no permissions. With it, the identity webhook gives the operator a token, with which a trigger
    assumes the role in its own TriggerAuthentication (docs/facts/scaling.md#identity-of-a-trigger). Each trigger's role
    limits its permissions. `monitored`: the cluster has the kinds ServiceMonitor and PrometheusRule and a Prometheus that
    reads them.
    """

    def __init__(
        self, name: str, cluster: ClusterAccess, *, monitored: bool, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("triton:platform:Keda", name, cluster, opts)
        namespace = self._namespace(KEDA_OPERATOR.namespace, "restricted")
        args = WorkloadRoleArgs("KEDA takes the roles of its triggers", KEDA_OPERATOR, identity="irsa")
        role = self._role(f"{name}-operator", args)
        self._install(KEDA, KEDA_OPERATOR.namespace, values(role.arn, monitored=monitored), namespace)
        self.register_outputs({})


def values(role_arn: pulumi.Input[str], *, monitored: bool) -> dict[str, Any]:
    """Return the chart's values."""
    irsa = {"enabled": True, "roleArn": role_arn, "stsRegionalEndpoints": "true"}
    computed: dict[str, Any] = {"podIdentity": {"aws": {"irsa": irsa}}}
    if monitored:
        computed["prometheus"] = {
            part: {"enabled": True, "serviceMonitor": {"enabled": True}} for part in ("operator", "metricServer", "webhooks")
        }
    return chart_values(KEDA, computed)
