"""Make of the counters of Triton's pods what Prometheus makes: samples every scrape, `rate` over a minute, recorded numbers.

`rate` is a port of `extrapolatedRate`, without native histograms and start timestamps, which Triton does not export:
https://github.com/prometheus/prometheus/blob/v3.15.0/promql/functions.go. The rules are those of
`spec.prometheus.recording`, as arithmetic; a test holds the two together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from spec.prometheus.rule import SCRAPE_SECONDS

WINDOW_SECONDS = 60
"""`[1m]` of the recording rules."""
_KEPT = WINDOW_SECONDS // SCRAPE_SECONDS + 2


@dataclass(frozen=True, slots=True)
class Sample:
    """One scrape of a pod's numbers of one model. `seconds`: each request is charged the time of its whole batch."""

    at: float
    successes: float
    executions: float
    seconds: float
    pending: float


@dataclass(slots=True)
class Target:
    """The samples of one model in one pod."""

    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=_KEPT))
    gone: bool = False
    """The pod is no longer scraped: its gauges end at once, its rates with the samples in their window."""

    def pending(self, _now: float) -> float | None:
        """Return `pod_model:triton_pending_requests:sum`."""
        return None if self.gone or not self.samples else self.samples[-1].pending

    def answered(self, now: float) -> float | None:
        """Return `pod_model:triton_answered_requests:rate1m`; None before there are two samples."""
        recent = [sample for sample in self.samples if now - WINDOW_SECONDS < sample.at <= now]
        return rate([one.at for one in recent], [one.successes for one in recent], now) if len(recent) > 1 else None

    def busy(self, now: float) -> float | None:
        """Return `pod_model:triton_busy_instances:rate1m`, 0 of an idle pod; None before there are two samples."""
        recent = [sample for sample in self.samples if now - WINDOW_SECONDS < sample.at <= now]
        if len(recent) < 2:
            return None
        times = [sample.at for sample in recent]
        executions = rate(times, [sample.executions for sample in recent], now)
        successes = rate(times, [sample.successes for sample in recent], now)
        if not successes:
            return 0 * executions
        return rate(times, [sample.seconds for sample in recent], now) * executions / successes


def rate(times: Sequence[float], values: Sequence[float], now: float, window: float = WINDOW_SECONDS) -> float:
    """Return PromQL's `rate` of a counter: its two samples or more, all of them within the window that ends now."""
    increase = values[-1] - values[0]
    increase += sum(before for before, after in pairwise(values) if after < before)
    sampled = times[-1] - times[0]
    between = sampled / (len(times) - 1)
    to_start, to_end = times[0] - (now - window), now - times[-1]
    if to_start >= 1.1 * between:
        to_start = between / 2
    if increase > 0 and values[0] >= 0:
        to_start = min(to_start, sampled * values[0] / increase)  # not to before the counter was 0
    if to_end >= 1.1 * between:
        to_end = between / 2
    return increase * (sampled + to_start + to_end) / sampled / window
