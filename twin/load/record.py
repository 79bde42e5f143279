"""Count the responses to a load, second by second."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from modelctl.loadgen import Outcome
from modelctl.loadgen.result import nearest_rank
from twin.load.scaling import Scale

WINDOW_SECONDS = 10.0
"""A percentile of one second at 30 requests/s would only show its slowest two."""
_SHORTEST_SECONDS = 1.0
"""The first moment is at the start, and a stopped load may have a short last one: both are too short for a rate."""


@dataclass(frozen=True)
class Moment:
    """One second of a load, `at` seconds after its start.

    `offered` and `answered` are requests/s since the moment before, `failed` is the total so far. `p95_ms` covers the
    responses of the last WINDOW_SECONDS, None without any. `waiting`: messages in the queue or being processed; None
    without a queue.
    """

    at: float
    offered: float
    answered: float
    failed: int
    p95_ms: float | None
    scale: Scale | None
    waiting: int | None = None


class Tally:
    """The outcomes so far, of requests that are due at these seconds."""

    def __init__(self, due: Sequence[float]) -> None:
        self._due = due
        self.answered: list[Outcome] = []
        self.failures: Counter[str] = Counter()
        self._moment = 0.0
        self._counted = 0

    def add(self, outcome: Outcome) -> None:
        """Count a request that has ended."""
        if outcome.ok:
            self.answered.append(outcome)
        else:
            self.failures[outcome.code] += 1

    def moment(self, now: float, scale: Scale | None, waiting: int | None = None) -> Moment:
        """Return the figures since the moment before, which must be earlier."""
        since, self._moment = self._moment, now
        new, self._counted = len(self.answered) - self._counted, len(self.answered)
        offered = bisect_right(self._due, now) - bisect_right(self._due, since)
        passed = max(now - since, _SHORTEST_SECONDS)
        return Moment(now, offered / passed, new / passed, self.failures.total(), self._p95(now), scale, waiting)

    def _p95(self, now: float) -> float | None:
        recent = []
        for outcome in reversed(self.answered):
            if outcome.done is None or outcome.done < now - WINDOW_SECONDS:
                break
            recent.append(outcome.latency_ms)
        return nearest_rank(recent, 95) if recent else None
