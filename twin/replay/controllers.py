"""Decide how many pods there are: KEDA, a HorizontalPodAutoscaler on custom metrics, or the stack file itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from spec.scaling.signal import Signal
from twin.replay.hpa import Autoscaler, by_pods_metric
from twin.replay.keda import ScaledObject, autoscaler_of


@dataclass(frozen=True)
class Seen:
    """The recorded numbers as of the last evaluation of the rules: by signal's name, of each pod that has one.

    `current`: pods that there are, of which `pending` have no node that is ready (the phase of that name). `ended`: what
    Prometheus has of pods that are gone.
    """

    values: Mapping[str, Sequence[float]]
    ended: Mapping[str, Sequence[float]]
    current: int
    pending: int

    def total(self, name: str) -> float | None:
        """Return the sum that a query gives; None where there is nothing to add up."""
        found = [*self.values.get(name, ()), *self.ended.get(name, ())]
        return sum(found) if found else None


class Controller(Protocol):
    """Decides at each look. `poll_seconds`: between two questions to Prometheus; None where each look asks."""

    poll_seconds: int | None

    def poll(self, seen: Seen) -> None:
        """Ask Prometheus."""

    def decide(self, now: float, timestamp: float, seen: Seen) -> int:
        """Return the pods wanted. `timestamp`: `now` as seconds since 1970."""


class Fixed:
    """The number of pods that the stack file says."""

    poll_seconds: int | None = None

    def poll(self, seen: Seen) -> None:
        """Ask nothing."""

    def decide(self, now: float, timestamp: float, seen: Seen) -> int:
        """Return the pods that there are."""
        return seen.current


class Keda:
    """A ScaledObject, and the HorizontalPodAutoscaler that KEDA makes of it."""

    def __init__(self, spec: Mapping[str, Any], signals: Sequence[Signal]) -> None:
        self._added = {signal.name: signal.added for signal in signals}
        self._scaled = ScaledObject(spec)
        self._autoscaler = Autoscaler(autoscaler_of(spec))
        self.poll_seconds: int | None = self._scaled.polling_seconds

    def poll(self, seen: Seen) -> None:
        """Ask Prometheus every query once."""
        totals = {name: seen.total(name) for name in self._added}
        answers = {name: None if total is None else total + self._added[name] for name, total in totals.items()}
        self._scaled.poll(answers, seen.current)

    def decide(self, now: float, timestamp: float, seen: Seen) -> int:
        """Return the pods wanted."""
        return self._autoscaler.decide(now, seen.current, self._scaled.proposals(timestamp, seen.current))


class Hpa:
    """A HorizontalPodAutoscaler with metrics of type Pods, which prometheus-adapter answers at each look."""

    poll_seconds: int | None = None

    def __init__(self, spec: Mapping[str, Any], signals: Sequence[Signal]) -> None:
        self._targets = {signal.name: signal.target for signal in signals}
        self._autoscaler = Autoscaler(spec)

    def poll(self, seen: Seen) -> None:
        """Ask nothing: it is asked at each look."""

    def decide(self, now: float, timestamp: float, seen: Seen) -> int:
        """Return the pods wanted."""
        proposals = []
        for name, target in self._targets.items():
            values = seen.values.get(name, ())
            # One that loads its models has a phase of Running and no number yet: missing, not pending.
            missing = seen.current - seen.pending - len(values)
            proposals.append(by_pods_metric(values, target, seen.current, missing=missing, pending=seen.pending))
        return self._autoscaler.decide(now, seen.current, proposals)
