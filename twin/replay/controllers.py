"""Decide the number of pods: KEDA, a HorizontalPodAutoscaler on custom metrics, or the stack file's fixed number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from spec.scaling.signal import Signal
from twin.replay.hpa import Autoscaler, by_pods_metric
from twin.replay.keda import ScaledObject, autoscaler_of


@dataclass(frozen=True)
class Seen:
    """The recorded numbers at the last evaluation of the rules: by signal name, one for each pod that has one.

    `current`: existing pods, of which `pending` have no ready node (the phase Pending). `ended`: numbers that Prometheus
    still has of deleted pods.
    """

    values: Mapping[str, Sequence[float]]
    ended: Mapping[str, Sequence[float]]
    current: int
    pending: int

    def total(self, name: str) -> float | None:
        """Return the sum that a query gives; None if there are no values."""
        found = [*self.values.get(name, ()), *self.ended.get(name, ())]
        return sum(found) if found else None


class Controller(Protocol):
    """Decides at each sync. `poll_seconds`: seconds between Prometheus queries; None if each sync sends a query."""

    poll_seconds: int | None

    def poll(self, seen: Seen) -> None:
        """Query Prometheus."""

    def decide(self, now: float, timestamp: float, seen: Seen) -> int:
        """Return the desired number of pods. `timestamp`: `now` as seconds since 1970."""


class Fixed:
    """The fixed number of pods in the stack file."""

    poll_seconds: int | None = None

    def poll(self, seen: Seen) -> None:
        """Do nothing."""

    def decide(self, now: float, timestamp: float, seen: Seen) -> int:
        """Return the current number of pods."""
        return seen.current


class Keda:
    """A ScaledObject, and the HorizontalPodAutoscaler that KEDA creates for it."""

    def __init__(self, spec: Mapping[str, Any], signals: Sequence[Signal]) -> None:
        self._added = {signal.name: signal.added for signal in signals}
        self._scaled = ScaledObject(spec)
        self._autoscaler = Autoscaler(autoscaler_of(spec))
        self.poll_seconds: int | None = self._scaled.polling_seconds

    def poll(self, seen: Seen) -> None:
        """Send each query to Prometheus once."""
        totals = {name: seen.total(name) for name in self._added}
        answers = {name: None if total is None else total + self._added[name] for name, total in totals.items()}
        self._scaled.poll(answers, seen.current)

    def decide(self, now: float, timestamp: float, seen: Seen) -> int:
        """Return the desired number of pods."""
        return self._autoscaler.decide(now, seen.current, self._scaled.proposals(timestamp, seen.current))


class Hpa:
    """A HorizontalPodAutoscaler with metrics of type Pods, which prometheus-adapter answers at each sync."""

    poll_seconds: int | None = None

    def __init__(self, spec: Mapping[str, Any], signals: Sequence[Signal]) -> None:
        self._targets = {signal.name: signal.target for signal in signals}
        self._autoscaler = Autoscaler(spec)

    def poll(self, seen: Seen) -> None:
        """Do nothing, because each sync reads its own metrics."""

    def decide(self, now: float, timestamp: float, seen: Seen) -> int:
        """Return the desired number of pods."""
        proposals = []
        for name, target in self._targets.items():
            values = seen.values.get(name, ())
            # A pod that loads its models has the phase Running and no number yet: it is missing, not pending.
            missing = seen.current - seen.pending - len(values)
            proposals.append(by_pods_metric(values, target, seen.current, missing=missing, pending=seen.pending))
        return self._autoscaler.decide(now, seen.current, proposals)
