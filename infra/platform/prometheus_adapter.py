"""prometheus-adapter: the custom metrics API for a plain HorizontalPodAutoscaler. It is being phased out: prefer KEDA.

It serves only custom metrics. KEDA serves the external metrics API and the metrics server the resource metrics API; a
cluster has only one server of each API (docs/facts/scaling.md#metrics-apis).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import pulumi

from infra.aws.cluster_access import ClusterAccess
from infra.platform.installed_chart import InstalledChart, chart_values
from spec.charts import PROMETHEUS_ADAPTER
from spec.names import PROMETHEUS_ADAPTER_NAMESPACE
from spec.scaling.signal import RECORDINGS, Recording


class PrometheusAdapter(InstalledChart):
    """The pinned chart, with a rule for each scaling metric of Triton.

    It is a release, because the chart queries the cluster for the versions of its API. Rendered without a cluster, it uses
    an APIService version that Kubernetes 1.22 removed (docs/facts/charts.md#prometheus-adapter).
    """

    def __init__(
        self,
        name: str,
        cluster: ClusterAccess,
        prometheus_url: str,
        served: Sequence[Recording],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("triton:platform:PrometheusAdapter", name, cluster, opts)
        namespace = self._namespace(PROMETHEUS_ADAPTER_NAMESPACE, "restricted")
        self._install(PROMETHEUS_ADAPTER, PROMETHEUS_ADAPTER_NAMESPACE, values(prometheus_url, served), namespace)
        self.register_outputs({})


def values(prometheus_url: str, served: Sequence[Recording] = RECORDINGS) -> dict[str, Any]:
    """Return the chart's values: the rules of the served metrics, and the address of Prometheus."""
    address = urlsplit(prometheus_url)
    return chart_values(
        PROMETHEUS_ADAPTER,
        {
            "prometheus": {
                "url": f"{address.scheme}://{address.hostname}",
                # Without a port, the chart's own default would be used.
                "port": address.port or {"http": 80, "https": 443}[address.scheme],
                **({"path": address.path} if address.path else {}),
            },
            "rules": {"custom": [_rule(recording) for recording in served]},
        },
    )


def _rule(recording: Recording) -> dict[str, Any]:
    """Return the rule that serves a recorded series by pod, under its API name; the model is a selector."""
    return {
        "seriesQuery": f'{recording.series}{{namespace!="",pod!=""}}',
        "resources": {"overrides": {"namespace": {"resource": "namespace"}, "pod": {"resource": "pod"}}},
        "name": {"matches": f"^{recording.series}$", "as": recording.metric},
        "metricsQuery": "sum by (<<.GroupBy>>) (<<.Series>>{<<.LabelMatchers>>})",
    }
