"""PodMonitors and rules: our pods that Prometheus scrapes, and the alerts on them.

They are in the monitoring namespace, so they neither wait for the workloads' namespaces nor are deleted with them.
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
    """Return the monitors and rules of a stack. `runbooks` is the URL at which on-call engineers read docs/runbooks."""
    monitors = [
        pod_monitor(JOB, TRITON_NAMESPACE, interval=TRITON_SCRAPE_SECONDS, timeout=TRITON_SCRAPE_SECONDS),
        # Each scrape queries every pod, and the metrics name the pods in their own labels.
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
    """Return the monitor of a namespace's pods whose name label, also their `job`, is `name`. Times are in seconds."""
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
    # Selected by our Prometheus (helm-values), and by a Prometheus that selects the label of its release.
    return {
        "name": name,
        "namespace": MONITORING_NAMESPACE,
        "labels": {NAME_LABEL: name, "release": KUBE_PROMETHEUS_STACK.name},
    }
