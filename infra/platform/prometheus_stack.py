"""The values of kube-prometheus-stack: `helm-values/kube-prometheus-stack/base.yaml` and values computed from a stack.

The keys were verified by rendering the pinned chart: docs/facts/charts.md#kube-prometheus-stack.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra.platform import pod_identity
from infra.platform.installed_chart import chart_values
from spec.charts import KUBE_PROMETHEUS_STACK
from spec.names import ALERTMANAGER, PROMETHEUS, PROMETHEUS_URL
from spec.settings import Settings
from spec.settings.monitoring import Monitoring

STORAGE_CLASS = "gp3"

_SHARE_OF_VOLUME = 0.9
"""The share of its volume that Prometheus uses at most. The write-ahead log and a compaction need the rest."""
_SILENCES_GIB = 1
# AWS's recommendation for remote write into AMP: docs/facts/charts.md#kube-prometheus-stack.
_REMOTE_WRITE_QUEUE = {"maxSamplesPerSend": 1000, "maxShards": 200, "capacity": 2500}

Values = dict[str, Any]


@dataclass(frozen=True)
class RemoteWrite:
    """An Amazon Managed Service for Prometheus workspace."""

    region: str
    url: str


@dataclass(frozen=True)
class AlertTopic:
    """An SNS topic."""

    region: str
    arn: str


def prometheus_url(settings: Settings) -> str:
    """Return the Prometheus of the autoscalers: the stack's own, unless `prometheusUrl` names another."""
    bounds = [fleet.stack.autoscaling for fleet in settings.each_fleet]
    named = [one.prometheus_url for one in bounds if one is not None and one.prometheus_url is not None]
    return named[0] if named else PROMETHEUS_URL


def values(
    monitoring: Monitoring, cluster_name: str, remote_write: RemoteWrite | None, alert_topic: AlertTopic | None
) -> Values:
    """Return the chart's values for a stack."""
    disruption_budget = {"podDisruptionBudget": {"enabled": monitoring.replicas > 1}}
    computed = {
        "prometheus": {
            "serviceAccount": {"create": True, "name": PROMETHEUS.name},
            "prometheusSpec": _prometheus(monitoring, cluster_name, remote_write),
            **disruption_budget,
        },
        "alertmanager": {
            "serviceAccount": {"create": True, "name": ALERTMANAGER.name},
            "config": alertmanager_config(alert_topic),
            "alertmanagerSpec": {
                "replicas": monitoring.replicas,
                "storage": _volume(_SILENCES_GIB),
                **(_in_aws("alertmanager") if alert_topic is not None else {}),
            },
            **disruption_budget,
        },
    }
    return chart_values(KUBE_PROMETHEUS_STACK, computed)


def _prometheus(monitoring: Monitoring, cluster_name: str, remote_write: RemoteWrite | None) -> Values:
    spec: Values = {
        "replicas": monitoring.replicas,
        "retention": f"{monitoring.retention_days}d",
        # Less than the volume, because retention by time alone could fill it.
        "retentionSize": f"{int(monitoring.storage_gib * _SHARE_OF_VOLUME)}GiB",
        "storageSpec": _volume(monitoring.storage_gib),
        "externalLabels": {"cluster": cluster_name},
        # By `cluster` and `__replica__`, AMP stores the samples of only one replica.
        "replicaExternalLabelName": "__replica__",
    }
    if remote_write is not None:
        spec["remoteWrite"] = [
            {
                "url": remote_write.url,
                "sigv4": {"region": remote_write.region},
                "queueConfig": dict(_REMOTE_WRITE_QUEUE),
            }
        ]
        spec |= _in_aws("prometheus")
    return spec


def alertmanager_config(topic: AlertTopic | None) -> Values:
    """Return the routing of alerts: alerts about problems go to the topic, all others are dropped."""
    nowhere = "null"
    receivers: list[Values] = [{"name": nowhere}]
    if topic is not None:
        sns = {"topic_arn": topic.arn, "sigv4": {"region": topic.region}, "send_resolved": True}
        receivers.append({"name": "sns", "sns_configs": [sns]})
    return {
        "route": {
            "receiver": receivers[-1]["name"],
            # One message for all pods of a model, and a separate one for each other alert.
            "group_by": ["namespace", "alertname", "model"],
            "group_wait": "30s",
            "group_interval": "5m",
            "repeat_interval": "12h",
            # Watchdog always fires, and InfoInhibitor only silences other alerts.
            "routes": [{"receiver": nowhere, "matchers": ['alertname =~ "Watchdog|InfoInhibitor"']}],
        },
        "receivers": receivers,
    }


def _in_aws(container: str) -> Values:
    """Return the keys of a custom resource that give its pods credentials. The operator merges containers by name."""
    return {
        "containers": [{"name": container, "env": pod_identity.environment()}],
        "volumes": pod_identity.volumes(),
        "volumeMounts": pod_identity.mounts(),
    }


def _volume(gib: int) -> Values:
    return {
        "volumeClaimTemplate": {
            "spec": {
                "storageClassName": STORAGE_CLASS,
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": f"{gib}Gi"}},
            }
        }
    }
