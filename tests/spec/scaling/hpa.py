"""The arithmetic of the HorizontalPodAutoscaler, as the Kubernetes documentation describes it.

Sources: "Algorithm details", "Stabilization window" and "Scaling policies" of the page "Horizontal Pod Autoscaling" of the
Kubernetes documentation, and pkg/controller/podautoscaler (replica_calculator.go, horizontal.go), whose order of steps this
has. It is a model for tests: what really scales is the controller in the cluster.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

TOLERANCE = 0.1
"""`--horizontal-pod-autoscaler-tolerance` of a cluster, which EKS does not let anybody change."""
SYNC_SECONDS = 15


def by_average_value(total: float, target: float, current: int) -> int:
    """Pods that an External metric of type AverageValue asks for (what KEDA makes of a trigger)."""
    if abs(1 - total / (target * current)) <= TOLERANCE:
        return current
    return math.ceil(round(total / target, 9))


def by_value(total: float, target: float, current: int) -> int:
    """Pods that the same number asks for when it is given as a Value: what `spec.scaling.signal` makes impossible."""
    ratio = total / target
    return current if abs(1 - ratio) <= TOLERANCE else math.ceil(round(ratio * current, 9))


def by_pods_metric(values: Mapping[str, float], target: float, *, missing: int = 0, pending: int = 0) -> int:
    """Pods that a metric of type Pods asks for. `values`: of the pods that have one.

    Pods without a value count as 0 when there shall be more and as their target when there shall be fewer; pods that have
    not started count as 0 when there shall be more, and are not looked at otherwise.
    """
    current = len(values) + missing + pending
    if not values:
        return current
    ratio = sum(values.values()) / len(values) / target
    counts_pending = pending > 0 and ratio > 1
    if not counts_pending and not missing:
        return current if abs(1 - ratio) <= TOLERANCE else math.ceil(round(ratio * len(values), 9))
    assumed = missing * (target if ratio < 1 else 0.0)
    counted = len(values) + missing + (pending if counts_pending else 0)
    new_ratio = (sum(values.values()) + assumed) / counted / target
    if abs(1 - new_ratio) <= TOLERANCE or (ratio < 1) != (new_ratio < 1):
        return current
    wanted = math.ceil(round(new_ratio * counted, 9))
    return current if (new_ratio < 1) == (wanted > current) else wanted


@dataclass
class Autoscaler:
    """Recommendations and changes of one HorizontalPodAutoscaler, in seconds of its own clock."""

    spec: Mapping[str, Any]
    recommendations: list[tuple[float, int]] = field(default_factory=list)
    changes: list[tuple[float, int]] = field(default_factory=list)

    def decide(self, now: float, current: int, proposals: Sequence[int]) -> int:
        """How many pods there shall be, of what each metric asks for: the most, stabilized, not too fast, within bounds."""
        wanted = self._stabilized(now, current, max(proposals))
        if wanted > current:
            wanted = min(wanted, self._most(now, current))
        elif wanted < current:
            wanted = max(wanted, self._fewest(now, current))
        wanted = min(max(wanted, self.spec["minReplicas"]), self.spec["maxReplicas"])
        if wanted != current:
            self.changes.append((now, wanted - current))
        return wanted

    def _stabilized(self, now: float, current: int, wanted: int) -> int:
        """The least that was wanted within the one window bounds growth, the most within the other bounds shrinking."""
        if not self.recommendations:  # a controller that has just started takes what is there for what was wanted
            self.recommendations.append((now, current))
        self.recommendations.append((now, wanted))
        least = min(self._recent(now, "scaleUp"))
        most = max(self._recent(now, "scaleDown"))
        return min(max(current, least), most)

    def _recent(self, now: float, direction: str) -> list[int]:
        window = self.spec["behavior"][direction]["stabilizationWindowSeconds"]
        return [pods for at, pods in self.recommendations if at == now or at > now - window]

    def _most(self, now: float, current: int) -> int:
        limits = []
        for policy in self.spec["behavior"]["scaleUp"]["policies"]:
            before = current - self._changed(now, policy["periodSeconds"])
            grown = before * (1 + policy["value"] / 100) if policy["type"] == "Percent" else before + policy["value"]
            limits.append(math.ceil(round(grown, 9)))
        return max(current, *limits)

    def _fewest(self, now: float, current: int) -> int:
        limits = []
        for policy in self.spec["behavior"]["scaleDown"]["policies"]:
            before = current - self._changed(now, policy["periodSeconds"])
            shrunk = before * (1 - policy["value"] / 100) if policy["type"] == "Percent" else before - policy["value"]
            limits.append(int(shrunk))
        return min(current, *limits)

    def _changed(self, now: float, period: float) -> int:
        return sum(change for at, change in self.changes if at > now - period)
