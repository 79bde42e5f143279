"""prometheus-adapter: the custom metrics API, for a plain HorizontalPodAutoscaler. It is being wound down: prefer KEDA.

It serves custom metrics and nothing else. The APIs of external metrics and of resource metrics belong to KEDA and to the
metrics server, and of each API there is one in a cluster (docs/facts/scaling.md#metrics-apis).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pulumi
import pulumi_kubernetes as k8s

from infra.platform import charts
from infra.platform.pod_security import RESTRICTED
from infra.platform.third_party import release
from spec.names import PROMETHEUS_ADAPTER_NAMESPACE
from spec.scaling.signal import RECORDINGS, Recording
from spec.versions import PROMETHEUS_ADAPTER


@dataclass(frozen=True)
class PrometheusAdapterArgs:
    kubernetes: k8s.Provider
    prometheus_url: str


class PrometheusAdapter(pulumi.ComponentResource):
    """The pinned chart, with a rule for each number that Triton is scaled on.

    As a release, because the chart asks the cluster which versions of its API there are: rendered without one, it asks for
    an APIService of a version that Kubernetes 1.22 removed (docs/facts/charts.md#prometheus-adapter).
    """

    def __init__(self, name: str, args: PrometheusAdapterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:platform:PrometheusAdapter", name, None, opts)
        namespace = k8s.core.v1.Namespace(
            f"{name}-namespace",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=PROMETHEUS_ADAPTER_NAMESPACE,
                labels=RESTRICTED,
            ),
            opts=pulumi.ResourceOptions(parent=self, provider=args.kubernetes),
        )
        release(
            f"{name}-release",
            PROMETHEUS_ADAPTER,
            PROMETHEUS_ADAPTER_NAMESPACE,
            values(args.prometheus_url),
            pulumi.ResourceOptions(parent=self, provider=args.kubernetes, depends_on=[namespace]),
        )
        self.register_outputs({})


def values(prometheus_url: str) -> dict[str, Any]:
    """The chart's values: `helm-values/prometheus-adapter/base.yaml`, the rules, and where Prometheus is."""
    address = urlsplit(prometheus_url)
    computed = {
        "prometheus": {"url": f"{address.scheme}://{address.hostname}", "port": address.port},
        "rules": {"custom": [_rule(recording) for recording in RECORDINGS]},
    }
    return charts.merge(charts.base_values(PROMETHEUS_ADAPTER.name), computed)


def _rule(recording: Recording) -> dict[str, Any]:
    """A recorded series under its name in the API, by pod; the model is a selector of the metric."""
    return {
        "seriesQuery": f'{recording.series}{{namespace!="",pod!=""}}',
        "resources": {"overrides": {"namespace": {"resource": "namespace"}, "pod": {"resource": "pod"}}},
        "name": {"matches": f"^{recording.series}$", "as": recording.metric},
        "metricsQuery": "sum by (<<.GroupBy>>) (<<.Series>>{<<.LabelMatchers>>})",
    }
