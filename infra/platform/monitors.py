"""PodMonitors and rules: the pods of ours that Prometheus scrapes, and the alerts on them.

They are in the namespace of the monitoring, so that they neither wait for the workloads' namespaces nor go with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spec.charts import KUBE_PROMETHEUS_STACK
from spec.names import (
    COMPARER,
    GATEWAY_NAMESPACE,
    MONITORING_NAMESPACE,
    PARITY_EXPORTER,
    TRITON_NAMESPACE,
    WORKER,
    WORKER_CHART,
)
from spec.prometheus import rule_file
from spec.prometheus.gateway import JOB as GATEWAY_JOB
from spec.prometheus.rule import JOB, SCRAPE_SECONDS, TRITON_SCRAPE_SECONDS
from spec.settings.model import Settings

API_VERSION = "monitoring.coreos.com/v1"
NAME_LABEL = "app.kubernetes.io/name"

Manifest = dict[str, Any]


def manifests(settings: Settings, runbooks: str) -> list[Manifest]:
    """Return the monitors and the rules of a stack. `runbooks`: the URL at which people on call read docs/runbooks."""
    monitors = [
        pod_monitor(JOB, TRITON_NAMESPACE, interval=TRITON_SCRAPE_SECONDS, timeout=TRITON_SCRAPE_SECONDS),
        # It asks each pod at each scrape, and it names the pods in labels of its own.
        pod_monitor(PARITY_EXPORTER, TRITON_NAMESPACE, interval=60, timeout=30, honor_labels=True),
    ]
    if settings.triton.comparer_image is not None:
        monitors.append(pod_monitor(COMPARER, TRITON_NAMESPACE))
    if settings.worker is not None:
        monitors.append(pod_monitor(WORKER_CHART, WORKER.namespace))
    if settings.gateway is not None:
        monitors.append(pod_monitor(GATEWAY_JOB, GATEWAY_NAMESPACE, path="/stats/prometheus"))
    return [*monitors, *_rules(settings, runbooks)]


def pod_monitor(
    name: str,
    namespace: str,
    *,
    path: str = "/metrics",
    interval: int = SCRAPE_SECONDS,
    timeout: int = 10,
    honor_labels: bool = False,
) -> Manifest:
    """Return the monitor of the pods in a namespace whose name label is `name`, their `job` too. Times in seconds."""
    return {
        "apiVersion": API_VERSION,
        "kind": "PodMonitor",
        "metadata": _metadata(name),
        "spec": {
            "jobLabel": NAME_LABEL,
            "namespaceSelector": {"matchNames": [namespace]},
            "selector": {"matchLabels": {NAME_LABEL: name}},
            "podMetricsEndpoints": [
                {
                    "port": "metrics",
                    "path": path,
                    "interval": f"{interval}s",
                    "scrapeTimeout": f"{timeout}s",
                    "honorLabels": honor_labels,
                }
            ],
        },
    }


def _rules(settings: Settings, runbooks: str) -> Iterator[Manifest]:
    for made in rule_file.prometheus_rules(settings, runbooks):
        metadata = _metadata(made["metadata"]["name"])
        yield {**made, "metadata": {**metadata, "labels": {**made["metadata"]["labels"], **metadata["labels"]}}}


def _metadata(name: str) -> Manifest:
    # Selected as it is (helm-values), and by a Prometheus that looks for the label of its release.
    return {
        "name": name,
        "namespace": MONITORING_NAMESPACE,
        "labels": {NAME_LABEL: name, "release": KUBE_PROMETHEUS_STACK.name},
    }
