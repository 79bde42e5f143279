"""KEDA's ScaledObject in virtual time: the values that its metrics server gives to its HorizontalPodAutoscaler.

A port of v2.20.2. KEDA sends each query once every `pollingInterval`, and the autoscaler reads that answer until the next
one (`useCachedMetrics`). A cron trigger has no interval and is evaluated at each sync:
https://github.com/kedacore/keda/blob/v2.20.2/pkg/scaling/scale_handler.go (`GetScaledObjectMetrics`). A query without an
answer is an error. After more than `failureThreshold` errors in a row, the fallback's number replaces it:
https://github.com/kedacore/keda/blob/v2.20.2/pkg/fallback/fallback.go (`GetMetricsWithFallback`). Reading a cached error
counts as another failure, and reading a cached fallback number counts as a success. So in a long outage the fallback's
number lasts for one or two syncs, then errors follow until enough have been counted again. Activation, from 0 pods to 1
and back, is not simulated (`twin.replay.plan` refuses such a fleet).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twin.replay.cron import Cron
from twin.replay.hpa import by_average_value


class ScaledObject:
    """The triggers of a ScaledObject's spec, as created by `spec.scaling.manifests.scaled_object_spec`."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.polling_seconds: int = spec["pollingInterval"]
        self._fallback = spec.get("fallback")
        self._targets = {
            trigger["name"]: float(trigger["metadata"]["threshold"])
            for trigger in spec["triggers"]
            if trigger["type"] == "prometheus"
        }
        self._crons = [Cron(trigger["metadata"]) for trigger in spec["triggers"] if trigger["type"] == "cron"]
        self._cached: dict[str, float | None] = dict.fromkeys(self._targets)
        self._failures = dict.fromkeys(self._targets, 0)

    def poll(self, answers: Mapping[str, float | None], current: int) -> None:
        """Send each query once. `answers`: by the trigger's name; None if the query has no result."""
        for name, target in self._targets.items():
            self._cached[name] = self._with_fallback(name, answers.get(name), target, current)

    def proposals(self, timestamp: float, current: int) -> list[int | None]:
        """Return the proposed replicas of each trigger; None for an error. `timestamp`: seconds since 1970."""
        asked: list[int | None] = []
        for name, target in self._targets.items():
            value = self._with_fallback(name, self._cached[name], target, current)
            asked.append(by_average_value(value, target, current) if value is not None else None)
        return asked + [by_average_value(cron.value(timestamp), 1, current) for cron in self._crons]

    def _with_fallback(self, name: str, value: float | None, target: float, current: int) -> float | None:
        if value is not None:
            self._failures[name] = 0
            return value
        self._failures[name] += 1
        if self._fallback is None or self._failures[name] <= self._fallback["failureThreshold"]:
            return None
        pods: int = self._fallback["replicas"]
        return target * (max(pods, current) if self._fallback.get("behavior") == "currentReplicasIfHigher" else pods)


def autoscaler_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the HorizontalPodAutoscaler that KEDA creates from a ScaledObject's spec."""
    return {
        "minReplicas": spec["minReplicaCount"],
        "maxReplicas": spec["maxReplicaCount"],
        "behavior": spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"],
    }
