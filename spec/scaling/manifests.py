"""The objects that scale a fleet's pods, as mappings: a ScaledObject of KEDA, or a HorizontalPodAutoscaler."""

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
"""For how long KEDA has to see nothing before it ends the last pod: longer than a fleet under load looks idle.

While Prometheus fails, no look counts as activity until the fallback, which one failure more brings. KEDA makes its scalers
anew after each failure, and a look that meets that finds them neither active nor failing, as if nobody asked
(https://github.com/kedacore/keda/blob/v2.20.2/pkg/scaling/scale_handler.go#L975-L977): one look for that, and one as the
time of the last activity is kept in whole seconds.
"""
WITHOUT_A_SECOND_POD = 1_000_000
"""Of what starts the first pod. How many more there are is for the numbers of the models to say."""


def scaled_object_spec(settings: Settings, prometheus_url: str, deployment: str | None = None) -> dict[str, Any]:
    """Return the ScaledObject: the pods that the most demanding of its triggers wants. `deployment`: see `signals`.

    A fleet that may have no pod needs one more trigger, that starts the first: its pods' own numbers are not there then.
    Here it is that of the gateway; that of the request queue is `infra.serving.scaling.first_pod_trigger`.
    """
    bounds, name = _bounds(settings), deployment or TRITON_DEPLOYMENT
    to_zero, pace = bounds.min_replicas == 0, behavior(settings)
    triggers = [signal.keda_trigger(prometheus_url, to_zero=to_zero) for signal in signals(settings, deployment)]
    if bounds.cron_floor is not None:
        triggers.append(_cron_trigger(bounds.cron_floor))
    if settings.woken_at_gateway:
        triggers.append(_gateway_trigger(prometheus_url))
    # A request that is not asked again has to find a pod that is still there when it is ready.
    start = start_seconds(settings) if settings.woken_at_gateway else 0
    idle = max(pace["scaleDown"]["stabilizationWindowSeconds"], start, _SHORTEST_IDLE_SECONDS)
    return {
        "scaleTargetRef": {"name": name},
        "minReplicaCount": bounds.min_replicas,
        "maxReplicaCount": bounds.max_replicas,
        "pollingInterval": _POLLING_SECONDS,
        # Of the last pod alone: KEDA ends it, and the HorizontalPodAutoscaler those before it.
        **({"cooldownPeriod": idle} if to_zero else {}),
        "fallback": {
            "failureThreshold": _FAILURES_BEFORE_FALLBACK,
            # With 0 there would be none: an outage of Prometheus would then end the pods of a loaded fleet.
            "replicas": max(1, bounds.min_replicas),
            # `static`, the default, would scale a loaded fleet down to it.
            "behavior": "currentReplicasIfHigher",
        },
        "advanced": {
            # Who takes the ScaledObject away keeps the pods that serve.
            "restoreToOriginalReplicaCount": False,
            "horizontalPodAutoscalerConfig": {"name": name, "behavior": pace},
        },
        "triggers": triggers,
    }


def autoscaler_spec(settings: Settings, deployment: str | None = None) -> dict[str, Any]:
    """Return the HorizontalPodAutoscaler, on the same numbers through the custom metrics API, of its own pods alone."""
    bounds, name = _bounds(settings), deployment or TRITON_DEPLOYMENT
    return {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "minReplicas": bounds.min_replicas,
        "maxReplicas": bounds.max_replicas,
        "metrics": [signal.pods_metric() for signal in signals(settings, deployment)],
        "behavior": behavior(settings),
    }


def _gateway_trigger(prometheus_url: str) -> dict[str, Any]:
    """Return the trigger by which a request at the gateway starts the first pod, and any number of them no second.

    No number at all is a failure, so that a fleet whose Envoys nobody scrapes gets the pods of the fallback, which counts as
    activity (https://github.com/kedacore/keda/blob/v2.20.2/pkg/scaling/scale_handler.go#L1002-L1003): as idleness it would
    leave the fleet without pods for ever.
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
