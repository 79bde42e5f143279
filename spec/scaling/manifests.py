"""The objects that scale a fleet's pods, as mappings: KEDA's ScaledObject or a HorizontalPodAutoscaler."""

from __future__ import annotations

from typing import Any

from spec.names import TRITON_DEPLOYMENT
from spec.prometheus.gateway import without_a_pod
from spec.prometheus.timing import start_seconds
from spec.scaling.behavior import behavior
from spec.scaling.signal import Signal, signals
from spec.settings.autoscaling import Autoscaling, CronFloor
from spec.settings.model import Settings

_POLLING_SECONDS = 5
_FAILURES_BEFORE_FALLBACK = 12
_SHORTEST_IDLE_SECONDS = (_FAILURES_BEFORE_FALLBACK + 3) * _POLLING_SECONDS
"""How long KEDA has to see no activity before it removes the last pod. A loaded fleet can look idle for a shorter time.

While Prometheus fails, no reading counts as activity until the fallback, which starts after one more failure. KEDA rebuilds
its scalers after each failure, and a reading at that time finds them neither active nor failing, as without requests
(https://github.com/kedacore/keda/blob/v2.20.2/pkg/scaling/scale_handler.go#L975-L977). So this adds one reading for that,
and one because KEDA keeps the time of the last activity in whole seconds.
"""
WITHOUT_A_SECOND_POD = 1_000_000
"""The threshold of a trigger that starts only the first pod. The models' own metrics decide on more pods."""


def scaled_object_spec(settings: Settings, prometheus_url: str, deployment: str | None = None) -> dict[str, Any]:
    """Return the spec of the ScaledObject. It scales to the pods of its most demanding trigger. `deployment`: see `signals`.

    A fleet that may have no pod needs one more trigger to start the first pod, because no pod exports metrics then. This
    adds the gateway's trigger; the request queue's is `infra.serving.scaling.first_pod_trigger`.
    """
    bounds, name = _bounds(settings), deployment or TRITON_DEPLOYMENT
    to_zero, pace = bounds.min_replicas == 0, behavior(settings)
    triggers = [signal.keda_trigger(prometheus_url, to_zero=to_zero) for signal in signals(settings, deployment)]
    if bounds.cron_floor is not None:
        triggers.append(_cron_trigger(bounds.cron_floor))
    if settings.woken_at_gateway:
        triggers.append(_gateway_trigger(prometheus_url))
    # A request without a retry needs a pod that still exists when it is ready.
    start = start_seconds(settings) if settings.woken_at_gateway else 0
    idle = max(pace["scaleDown"]["stabilizationWindowSeconds"], start, _SHORTEST_IDLE_SECONDS)
    return {
        "scaleTargetRef": {"name": name},
        "minReplicaCount": bounds.min_replicas,
        "maxReplicaCount": bounds.max_replicas,
        "pollingInterval": _POLLING_SECONDS,
        # Only for the last pod, which KEDA removes. The HorizontalPodAutoscaler removes the others.
        **({"cooldownPeriod": idle} if to_zero else {}),
        "fallback": {
            "failureThreshold": _FAILURES_BEFORE_FALLBACK,
            # With 0 there is no fallback: an outage of Prometheus would remove the pods of a loaded fleet.
            "replicas": max(1, bounds.min_replicas),
            # `static`, the default, would scale a loaded fleet down to it.
            "behavior": "currentReplicasIfHigher",
        },
        "advanced": {
            # Deleting the ScaledObject keeps the serving pods.
            "restoreToOriginalReplicaCount": False,
            "horizontalPodAutoscalerConfig": {"name": name, "behavior": pace},
        },
        "triggers": triggers,
    }


def autoscaler_spec(settings: Settings, deployment: str | None = None) -> dict[str, Any]:
    """Return the spec of a HorizontalPodAutoscaler with the same metrics. It reads them for its own pods only."""
    bounds, name = _bounds(settings), deployment or TRITON_DEPLOYMENT
    return {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "minReplicas": bounds.min_replicas,
        "maxReplicas": bounds.max_replicas,
        "metrics": [signal.pods_metric() for signal in signals(settings, deployment)],
        "behavior": behavior(settings),
    }


def _gateway_trigger(prometheus_url: str) -> dict[str, Any]:
    """Return the trigger by which requests at the gateway start the first pod but never a second.

    A missing value counts as a failure. So a fleet whose Envoys are not scraped gets the fallback's pods, which count as
    activity (https://github.com/kedacore/keda/blob/v2.20.2/pkg/scaling/scale_handler.go#L1002-L1003). If it counted as idle,
    the fleet would stay without pods forever.
    """
    return {
        "type": "prometheus",
        "name": "requests-without-a-pod",
        "metricType": Signal.METRIC_TYPE,
        "useCachedMetrics": True,
        "metadata": {
            "serverAddress": prometheus_url,
            "query": without_a_pod(),
            "threshold": str(WITHOUT_A_SECOND_POD),
            "activationThreshold": "0",
            "ignoreNullValues": "false",
        },
    }


def _cron_trigger(floor: CronFloor) -> dict[str, Any]:
    return {
        "type": "cron",
        "name": "floor",
        "metadata": {
            "timezone": floor.timezone,
            "start": floor.start,
            "end": floor.end,
            "desiredReplicas": str(floor.replicas),
        },
    }


def _bounds(settings: Settings) -> Autoscaling:
    if settings.autoscaling is None:
        raise ValueError("Triton's pods have no bounds: triton-eks:autoscaling is missing")
    return settings.autoscaling
