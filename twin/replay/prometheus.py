"""Compute from the counters of Triton's pods what Prometheus computes: samples per scrape, `rate` over a window, numbers.

`rate` is a port of `extrapolatedRate`, without native histograms and start timestamps, which Triton does not export:
https://github.com/prometheus/prometheus/blob/v3.15.0/promql/functions.go. The rules are the arithmetic form of
`spec.prometheus.recording`; a test checks that both agree.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from spec.prometheus.rule import SCALING_WINDOW_SECONDS, TRITON_SCRAPE_SECONDS


@dataclass(frozen=True, slots=True)
class Sample:
    """One scrape of a pod's numbers of one model. `seconds`: each request counts the time of its whole batch.

    `rejected`: requests that waited for longer than the queue's timeout.
    """

    at: float
    successes: float
    executions: float
    seconds: float
    pending: float
    rejected: float = 0.0


@dataclass(slots=True)
class Target:
    """The samples of one model in one pod. The numbers of a deleted pod end when its samples leave the window."""

    window_seconds: int = SCALING_WINDOW_SECONDS
    samples: deque[Sample] = field(init=False)
    _needed: tuple[float, float | None] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.samples = deque(maxlen=self.window_seconds // TRITON_SCRAPE_SECONDS + 2)

    def pending(self, now: float) -> float | None:
        """Return the mean of `pod_model:triton_pending_requests:sum` that the query reads (`Signal.query`)."""
        recent = self._recent(now)
        return sum(one.pending for one in recent) / len(recent) if recent else None

    def asked(self, now: float) -> float | None:
        """Return `pod_model:triton_requests:rate`; None before the second sample."""
        recent = self._recent(now)
        return self._rate(recent, now, lambda one: one.successes + one.rejected) if len(recent) > 1 else None

    def busy(self, now: float) -> float | None:
        """Return the number of executing instances, 0 for an idle pod; None before the second sample."""
        recent = self._recent(now)
        if len(recent) < 2:
            return None
        executions = self._rate(recent, now, lambda one: one.executions)
        successes = self._rate(recent, now, lambda one: one.successes)
        return self._rate(recent, now, lambda one: one.seconds) * executions / successes if successes else 0 * executions

    def needed(self, now: float) -> float | None:
        """Return `pod_model:triton_needed_instances:rate`, 0 for an idle pod; None before the second sample."""
        if self._needed is None or self._needed[0] != now:  # the load of the GPUs needs it too
            self._needed = (now, self._needed_at(now))
        return self._needed[1]

    def _needed_at(self, now: float) -> float | None:
        busy, recent = self.busy(now), self._recent(now)
        if not busy:
            return busy
        if recent[0].rejected == recent[-1].rejected:  # a shortcut: a month has half a million evaluations
            return busy
        successes = self._rate(recent, now, lambda one: one.successes)
        return busy * (1 + self._rate(recent, now, lambda one: one.rejected) / successes)

    def _recent(self, now: float) -> list[Sample]:
        return [sample for sample in self.samples if now - self.window_seconds < sample.at <= now]

    def _rate(self, samples: Sequence[Sample], now: float, counter: Callable[[Sample], float]) -> float:
        # The counters of a simulated pod never reset, so samples between the first and the last add nothing.
        ends = (counter(samples[0]), counter(samples[-1]))
        return rate([one.at for one in samples], ends, now, self.window_seconds)


def gpu_load(needed: Mapping[str, float | None], instances: Mapping[str, int], gpus: int) -> float | None:
    """Return `pod:triton_gpu_load:rate` of one pod from its models' needed instances; None if no model has a number."""
    known = {model: value for model, value in needed.items() if value is not None}
    if not known:
        return None
    busy = {model: min(value, instances[model]) for model, value in known.items()}
    executing = sum(busy.values()) / gpus
    return sum(value / (1 - busy[model] / instances[model] + executing) for model, value in known.items())


def rate(times: Sequence[float], values: Sequence[float], now: float, window: float) -> float:
    """Return PromQL's `rate` of a counter, from at least two samples within the window that ends now."""
    increase = values[-1] - values[0]
    increase += sum(before for before, after in pairwise(values) if after < before)
    sampled = times[-1] - times[0]
    between = sampled / (len(times) - 1)
    to_start, to_end = times[0] - (now - window), now - times[-1]
    if to_start >= 1.1 * between:
        to_start = between / 2
    if increase > 0 and values[0] >= 0:
        to_start = min(to_start, sampled * values[0] / increase)  # do not extrapolate to before the counter was 0
    if to_end >= 1.1 * between:
        to_end = between / 2
    return increase * (sampled + to_start + to_end) / sampled / window
