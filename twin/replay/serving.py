"""One model in one pod, second by second: requests that wait, are executed in batches, are late, or are rejected.

A fluid, not single requests: within a second arrivals are even, and a request waits for the rest of a batch that is under
way (any part of it is as likely) and for the backlog before it. What waits longer than the queue's timeout is rejected
(`ModelServing.queue_timeout_us`). docs/replay.md says what this leaves out.
"""

from __future__ import annotations

from twin.replay.prometheus import Sample, Target
from twin.replay.service import Service


class Server:
    """A model in a pod. Its counters are those that Triton exports, in requests and seconds."""

    __slots__ = ("_executions", "_pending", "_seconds", "_slo", "_successes", "_timeout", "queue", "service", "target")

    def __init__(self, service: Service, slo_seconds: float, timeout_seconds: float) -> None:
        self.service = service
        self.queue = 0.0
        self.target = Target()
        self._slo, self._timeout = slo_seconds, timeout_seconds
        self._successes = self._executions = self._seconds = self._pending = 0.0

    def second(self, arriving: float) -> tuple[float, float]:
        """Take a second's requests; return how many of them are answered after the SLO, and how many rejected."""
        service, before = self.service, self.queue
        capacity = service.capacity
        if before == 0 and arriving <= capacity:
            if arriving == 0:
                self._pending = 0.0
                return 0.0, 0.0
            now = service.steady(arriving)
            self._successes += arriving
            self._executions += now.executions
            self._seconds += arriving * now.batch_seconds
            self._pending = arriving * now.share * now.batch_seconds / 2
            return arriving * _late(now.share, now.batch_seconds, 0.0, self._slo), 0.0
        served = min(before + arriving, capacity)
        left = before + arriving - served
        rejected = min(arriving, max(0.0, left - capacity * self._timeout))
        self.queue = left - rejected
        now = service.steady(served)
        self._successes += served
        self._executions += now.executions
        self._seconds += served * now.batch_seconds
        self._pending = self.queue + served * now.share * now.batch_seconds / 2
        delay = (before + self.queue) / 2 / capacity
        return (arriving - rejected) * _late(now.share, now.batch_seconds, delay, self._slo), rejected

    def scrape(self, at: float) -> None:
        """Let Prometheus take a sample."""
        self.target.samples.append(Sample(at, self._successes, self._executions, self._seconds, self._pending))


def _late(share: float, batch: float, delay: float, slo: float) -> float:
    """Return the share of requests that take longer than the SLO: of `share`, which wait, and of the others."""
    left = slo - delay - batch
    if left < 0:
        return 1.0
    return share * (1 - left / batch) if left < batch else 0.0
