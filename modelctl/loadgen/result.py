"""The outcomes of a run's requests, and figures derived from them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

OK = "OK"
NOT_SENT = "NOT_SENT"
"""Due, but the run was stopped or its time was over before the request could be sent."""
UNFINISHED = "UNFINISHED"
"""Sent, and without an answer when the run ended."""
SHED = "SHED"
"""Refused by an overloaded server. Its queue is full, or the request waited in it for too long."""


class Unaccounted(Exception):
    """A load was cut off, so the results of some of its requests are unknown. The text has their number."""


@dataclass(frozen=True)
class Account:
    """The result of every sent request: sent = answered + failed + shed."""

    sent: int
    answered: int
    failed: int
    shed: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """One request; times in seconds after the start of the run. `tag` is the sender's tag for the answer."""

    due: float
    sent: float | None
    done: float | None
    code: str
    tag: str | None = None

    @property
    def ok(self) -> bool:
        return self.code == OK

    @property
    def latency_ms(self) -> float:
        """Return the time from due to the answer; infinite without a good answer."""
        return (self.done - self.due) * 1000 if self.ok and self.done is not None else math.inf


@dataclass(frozen=True)
class Summary:
    """The figures of a run for people and files. A percentile that failed requests make infinite is None."""

    due: int
    ok: int
    seconds: float
    offered_rate: float
    throughput: float
    p50_ms: float | None
    p90_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    late_p95_ms: float
    errors: Mapping[str, int]
    tags: Mapping[str, int]
    stopped: bool


@dataclass(frozen=True)
class Result:
    """The outcomes, sorted by due time; the load lasted from `begin` to `end` (seconds).

    `stopped`: the run ended because there was no more to learn, not because its time was over.
    """

    outcomes: tuple[Outcome, ...]
    end: float
    begin: float = 0.0
    stopped: bool = False

    @property
    def seconds(self) -> float:
        return self.end - self.begin

    def account(self) -> Account:
        """Count the results of all due requests. Raises Unaccounted when any result is unknown.

        A claim such as "no request failed" is about all requests, so it must start here.
        """
        unsent = sum(outcome.code == NOT_SENT for outcome in self.outcomes)
        open_ = sum(outcome.done is None for outcome in self.outcomes) - unsent
        if unsent or open_:
            raise Unaccounted(
                f"of {len(self.outcomes)} requests {open_} had no answer and {unsent} were not sent when the load was cut "
                "off; end it by `end`, which waits for answers, and give it the time to drain"
            )
        shed = sum(outcome.code == SHED for outcome in self.outcomes)
        return Account(len(self.outcomes), self.ok, len(self.outcomes) - self.ok - shed, shed)

    def percentile_ms(self, percent: float) -> float:
        """Return the latency in ms that `percent` of all due requests did not exceed, by nearest rank.

        A request without a good answer counts as infinitely slow: with more than 5 % failures the 95th percentile is
        infinite. Raises ValueError when no request was due.
        """
        return nearest_rank([outcome.latency_ms for outcome in self.outcomes], percent)

    def late_ms(self, percent: float) -> float:
        """Return how late requests were sent: the generator's own delay, in ms. 0 if none was sent."""
        late = [(outcome.sent - outcome.due) * 1000 for outcome in self.outcomes if outcome.sent is not None]
        return nearest_rank(late, percent) if late else 0.0

    def within(self, limit_ms: float) -> float:
        """Return the share (0 to 1) of due requests with a good answer within `limit_ms`. 1 if none was due."""
        if not self.outcomes:
            return 1.0
        return sum(outcome.latency_ms <= limit_ms for outcome in self.outcomes) / len(self.outcomes)

    @property
    def ok(self) -> int:
        return sum(outcome.ok for outcome in self.outcomes)

    @property
    def throughput(self) -> float:
        """Return the good answers per second until the load ended or, if later, the last answer came."""
        last = max((outcome.done for outcome in self.outcomes if outcome.done is not None), default=self.end)
        return self.ok / (max(self.end, last) - self.begin)

    @property
    def errors(self) -> dict[str, int]:
        """Return the number of requests without a good answer, by code."""
        return dict(Counter(outcome.code for outcome in self.outcomes if not outcome.ok))

    @property
    def tags(self) -> dict[str, int]:
        """Return the number of good answers by tag; answers without a tag are left out."""
        return dict(Counter(outcome.tag for outcome in self.outcomes if outcome.ok and outcome.tag is not None))

    def after(self, seconds: float) -> Result:
        """Return the part after the first `seconds`, without the warm-up: the requests that were due then.

        Raises ValueError when this is not within the run.
        """
        if not self.begin <= seconds < self.end:
            raise ValueError(f"{seconds} s is not within a run from {self.begin} to {self.end} s")
        return replace(self, outcomes=tuple(o for o in self.outcomes if o.due >= seconds), begin=seconds)

    def summary(self) -> Summary:
        """Return the figures; without a due request the percentiles are None."""
        p50, p90, p95, p99, largest = (
            _finite(self.percentile_ms(percent)) if self.outcomes else None for percent in (50, 90, 95, 99, 100)
        )
        return Summary(
            due=len(self.outcomes),
            ok=self.ok,
            seconds=round(self.seconds, 3),
            offered_rate=round(len(self.outcomes) / self.seconds, 3),
            throughput=round(self.throughput, 3),
            p50_ms=p50,
            p90_ms=p90,
            p95_ms=p95,
            p99_ms=p99,
            max_ms=largest,
            late_p95_ms=round(self.late_ms(95), 3),
            errors=self.errors,
            tags=self.tags,
            stopped=self.stopped,
        )


def nearest_rank(values: Iterable[float], percent: float) -> float:
    """Return the smallest of `values` that at least `percent` of them do not exceed. Raises ValueError without values."""
    ordered = sorted(values)
    if not ordered or not 0 < percent <= 100:
        raise ValueError("a percentile needs values and a percentage over 0 and up to 100")
    return ordered[rank(percent, len(ordered)) - 1]


def rank(percent: float, count: int) -> int:
    """Return the smallest number of values that is at least `percent` of `count`."""
    # Rounded, because 2.2 * 1500 / 100 is a float a little over 33, and would become 34.
    return math.ceil(round(percent * count / 100, 9))


def _finite(value: float) -> float | None:
    return round(value, 3) if math.isfinite(value) else None
