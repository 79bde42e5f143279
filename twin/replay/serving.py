"""One model in one pod, second by second: requests wait, are executed in batches, are late, or are rejected.

Requests are a fluid, not single ones. Arrivals are even within a second. A request waits for the rest of a running batch
(any part of it is equally likely) and for the backlog before it. A request that waits longer than the queue's timeout is
rejected (`ModelServing.queue_timeout_us`). docs/replay.md lists what this leaves out. Executions that last for seconds are
simulated one by one (`twin.replay.contention`).
"""

from __future__ import annotations

import math
from functools import cache

from spec.prometheus.rule import SCALING_WINDOW_SECONDS
from twin.replay.prometheus import Sample, Target
from twin.replay.service import Service, Steady

_STEP = 1.02
"""Slowdown factors are rounded to powers of this, so that the batch times are computed once for each."""


class Server:
    """A model in a pod. Its counters are the counters that Triton exports, in requests and seconds."""

    __slots__ = (
        "_executions",
        "_pending",
        "_rejected",
        "_seconds",
        "_slo",
        "_stretched",
        "_successes",
        "_timeout",
        "busy",
        "queue",
        "service",
        "target",
    )

    def __init__(
        self, service: Service, slo_seconds: float, timeout_seconds: float, window_seconds: int = SCALING_WINDOW_SECONDS
    ) -> None:
        self.service = service
        self.queue = self.busy = 0.0
        self.target = Target(window_seconds)
        self._stretched: tuple[Service, float, Service] = (service, 1.0, service)
        self._slo, self._timeout = slo_seconds, timeout_seconds
        self._successes = self._rejected = self._executions = self._seconds = self._pending = 0.0

    def second(self, arriving: float, stretch: float = 1.0) -> tuple[float, float]:
        """Take a second's requests; return the number of requests answered after the SLO, and the number rejected.

        `stretch`: the factor by which other executions on the GPU slow a batch down.
        """
        service, before = self._service(stretch), self.queue
        capacity = service.instances * service.batch / service.full
        if before == 0 and arriving <= capacity:
            if arriving == 0:
                self._pending = self.busy = 0.0
                return 0.0, 0.0
            now = service.steady(arriving)
            self._successes += arriving
            self._executions += now.executions
            self._seconds += arriving * now.batch_seconds
            self._pending = arriving * now.share * now.batch_seconds / 2
            self.busy = now.executions * now.batch_seconds
            return arriving * self._late(now, 0.0), 0.0
        served = min(before + arriving, capacity)
        left = before + arriving - served
        rejected = min(arriving, max(0.0, left - capacity * self._timeout))
        self.queue = left - rejected
        now = service.steady(served)
        self._successes += served
        self._rejected += rejected
        self._executions += now.executions
        self._seconds += served * now.batch_seconds
        self.busy = now.executions * now.batch_seconds
        self._pending = self.queue + served * now.share * now.batch_seconds / 2
        delay = (before + self.queue) / 2 / capacity
        return (arriving - rejected) * self._late(now, delay), rejected

    def scrape(self, at: float) -> None:
        """Record a Prometheus sample."""
        self.target.samples.append(
            Sample(at, self._successes, self._executions, self._seconds, self._pending, self._rejected)
        )

    def _service(self, stretch: float) -> Service:
        if stretch == 1.0:
            return self.service
        step = _STEP ** round(math.log(stretch, _STEP))
        of, known, stretched = self._stretched
        if of is not self.service or known != step:
            stretched = _slowed(self.service, step)
            self._stretched = (self.service, step, stretched)
        return stretched

    def _late(self, now: Steady, delay: float) -> float:
        """Return the share of answers that take longer than the SLO.

        A request that waits longer than the queue's timeout is rejected, so no answer takes longer than the timeout plus
        a batch.
        """
        if self._timeout + now.batch_seconds <= self._slo:
            return 0.0
        left = self._slo - delay - now.batch_seconds
        if left < 0:
            return 1.0
        return now.share * (1 - left / now.batch_seconds) if left < now.batch_seconds else 0.0


@cache
def _slowed(service: Service, step: float) -> Service:
    return service.slowed(step)
