"""The HorizontalPodAutoscaler of Kubernetes 1.36, in virtual time: from metrics to proposals to replicas.

A port of pkg/controller/podautoscaler at v1.36.2, in its own order and with its own units, whole thousandths:
https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/controller/podautoscaler/replica_calculator.go
(`GetExternalPerPodMetricReplicas`, `calcPlainMetricReplicas`, `groupPods`) and
https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/controller/podautoscaler/horizontal.go
(`computeReplicasForMetrics`, `normalizeDesiredReplicasWithBehaviors`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

TOLERANCE = 0.1
"""The cluster's `--horizontal-pod-autoscaler-tolerance`, which cannot be changed on EKS."""
SYNC_SECONDS = 15
"""The cluster's `--horizontal-pod-autoscaler-sync-period`, which cannot be changed on EKS either."""

_UP: Mapping[str, Any] = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_DOWN: Mapping[str, Any] = {
    "stabilizationWindowSeconds": 300,
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}
"""Defaults for a spec without these fields:
https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/apis/autoscaling/v2/defaults.go.
"""


def by_average_value(total: float, target: float, current: int) -> int:
    """Return the replicas for an External metric of type AverageValue, the type of KEDA's triggers."""
    usage, per_pod = _rounded(total), _rounded(target)
    if _tolerated(usage / (per_pod * current)):
        return current
    return math.ceil(usage / per_pod)


def by_pods_metric(
    values: Sequence[float], target: float, current: int, *, missing: int = 0, pending: int = 0
) -> int | None:
    """Return the replicas for a metric of type Pods; None if no pod has a value, which is an error.

    `values`: one for each pod that has one. A pod without a value counts as 0 when scaling up, and as its target when
    scaling down. A pod of the phase Pending counts as 0 when scaling up, and is ignored otherwise.
    """
    if not values:
        return None
    per_pod = math.ceil(target * 1000)
    thousandths = [int(value * 1000) for value in values]
    ratio = sum(thousandths) // len(thousandths) / per_pod
    counts_pending = pending > 0 and ratio > 1
    if not counts_pending and not missing:
        return current if _tolerated(ratio) else math.ceil(ratio * len(values))
    if ratio != 1:
        thousandths += [per_pod if ratio < 1 else 0] * missing
    thousandths += [0] * (pending if counts_pending else 0)
    again = sum(thousandths) // len(thousandths) / per_pod
    if _tolerated(again) or (ratio < 1 < again) or (again < 1 < ratio):
        return current
    wanted = math.ceil(again * len(thousandths))
    return current if (again < 1 and wanted > current) or (again > 1 and wanted < current) else wanted


def _rounded(value: float) -> int:
    """Return thousandths as KEDA rounds values and targets: `%.3f`, and 0 for a negative or non-finite value.

    https://github.com/kedacore/keda/blob/v2.20.2/pkg/scalers/scaler.go (`quantityFromFloat64`)
    """
    return int(f"{value:.3f}".replace(".", "")) if math.isfinite(value) and value > 0 else 0


def _tolerated(ratio: float) -> bool:
    return 1 - TOLERANCE <= ratio <= 1 + TOLERANCE


@dataclass
class Autoscaler:
    """Recommendations and changes of one HorizontalPodAutoscaler, in seconds of its own clock.

    `spec` has `minReplicas`, `maxReplicas` and `behavior` as in `autoscaling/v2`.
    """

    spec: Mapping[str, Any]
    recommendations: list[tuple[float, int]] = field(default_factory=list)
    changes: list[tuple[float, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        behavior = self.spec.get("behavior") or {}
        self._up = {**_UP, **(behavior.get("scaleUp") or {})}
        self._down = {**_DOWN, **(behavior.get("scaleDown") or {})}
        rules = (self._up, self._down)
        self._remembers = max(float(rule["stabilizationWindowSeconds"]) for rule in rules)
        self._period = max(float(policy["periodSeconds"]) for rule in rules for policy in rule["policies"])

    def decide(self, now: float, current: int, proposals: Sequence[int | None]) -> int:
        """Return the desired replicas: the highest proposal, stabilized, limited by the policies and the bounds.

        None is a metric that could not be read. With one such metric the autoscaler does not scale down; without any other
        metric it does not scale at all.
        """
        if not self.recommendations:  # a controller that just started takes the replicas as a recommendation
            self.recommendations.append((now, current))
        fewest, most = self.spec.get("minReplicas", 1), self.spec["maxReplicas"]
        if not fewest <= current <= most:
            wanted = min(max(current, fewest), most)
        else:
            read = [proposal for proposal in proposals if proposal is not None]
            if not read or (len(read) < len(proposals) and max(read) < current):
                return current
            wanted = self._stabilized(now, current, max(read))
            if wanted > current:
                wanted = min(wanted, most, max(current, self._most(now, current)))
            elif wanted < current:
                wanted = max(wanted, fewest, min(current, self._fewest(now, current)))
        if wanted != current:
            self.changes = [change for change in self.changes if change[0] > now - self._period]
            self.changes.append((now, wanted - current))
        return wanted

    def _stabilized(self, now: float, current: int, wanted: int) -> int:
        """Return the desired replicas, limited by the recommendations in the two stabilization windows.

        Scaling up goes to the lowest recommendation of its window at most, scaling down to the highest of its window at
        least.
        """
        least = min([wanted, *self._recent(now, self._up)])
        most = max([wanted, *self._recent(now, self._down)])
        self.recommendations = [made for made in self.recommendations if made[0] > now - self._remembers]
        self.recommendations.append((now, wanted))
        return min(max(current, least), most)

    def _recent(self, now: float, rule: Mapping[str, Any]) -> list[int]:
        since = now - rule["stabilizationWindowSeconds"]
        return [pods for at, pods in self.recommendations if at > since]

    def _most(self, now: float, current: int) -> int:
        limits = []
        for policy in self._up["policies"]:
            before = current - self._changed(now, policy["periodSeconds"])
            grown = before + policy["value"] if policy["type"] == "Pods" else before * (1 + policy["value"] / 100)
            limits.append(math.ceil(grown))
        return _selected(self._up, limits, current, max)

    def _fewest(self, now: float, current: int) -> int:
        limits = []
        for policy in self._down["policies"]:
            before = current - self._changed(now, policy["periodSeconds"])
            shrunk = before - policy["value"] if policy["type"] == "Pods" else before * (1 - policy["value"] / 100)
            limits.append(int(shrunk))
        return _selected(self._down, limits, current, min)

    def _changed(self, now: float, period: float) -> int:
        return sum(change for at, change in self.changes if at > now - period)


def _selected(rule: Mapping[str, Any], limits: list[int], current: int, furthest: Any) -> int:
    if rule["selectPolicy"] == "Disabled":
        return current
    nearest = min if furthest is max else max
    chosen: int = furthest(limits) if rule["selectPolicy"] == "Max" else nearest(limits)
    return chosen
