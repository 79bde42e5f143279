"""The gate between the steps of a canary. It judges the new versions by their share of the requests.

The gate reads each pod's own counters. These do not count requests that a full queue refused
(docs/facts/triton-metrics.md#refused-requests). So a slow canary shows in its durations before it shows in failures. See
docs/canary-gate.md for the four questions, their error rates, and the results of simulated canaries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, log

from modelctl.rollout import likelihood
from modelctl.rollout.limits import Terms
from modelctl.rollout.metrics import Counters, VersionOf
from spec import objectives

REFUSED_WRONGLY = 0.01
"""Largest probability that one question at one step refuses a right version."""
PASSED_WRONGLY = 0.05
"""Largest probability that one question at one step passes a bad version. Such a version is at the question's limit."""

_TIMES = 5
"""A version is bad if it fails this many times as often as allowed. The limits are its error budget and the old version."""
_LATE = 1 - objectives.LATENCY
_TIMES_LATE = 2
_CANCELED = 0.01
"""Share of requests that clients may cancel without further checks."""
_WINDOW_REQUESTS = 10
REFUSE, PASS = -log(REFUSED_WRONGLY), log(PASSED_WRONGLY)
"""Weights that answer a question: at REFUSE the version is refused, at PASS it is cleared."""


@dataclass(frozen=True)
class Canary:
    """A new version on trial, and the old version that gets the other requests. `old` is None if it is unknown.

    `slo_p95_ms`: the p95 SLO of the stack, queue included; None if it has none. `compared`: compare the time in the model
    with the old version. The old one gets at least as many requests, so the new one's batches are no larger. `old_release`:
    the release of the old version if separate pods serve it (`of_release`); None if the same pods serve both versions.
    """

    model: str
    version: int
    old: int | None
    slo_p95_ms: float | None
    compared: bool = True
    old_release: str | None = None

    @property
    def old_counted(self) -> VersionOf | None:
        """Return the key that counts the requests of the old version. None if there is no old version."""
        if self.old is None:
            return None
        return (self.model if self.old_release is None else _model_of(self.old_release, self.model)), self.old

    @property
    def old_name(self) -> str:
        """Return the name of the old version for messages."""
        return f"version {self.old}" if self.old_release is None else f"release {self.old_release}"


@dataclass(frozen=True)
class Finding:
    """One question about one canary.

    `weight`: the logarithm of how much likelier the data are for a bad version than for a good one. `seen`: the figures.
    `asked`: the question that more requests would answer.
    """

    weight: float
    seen: str
    asked: str


def of_release(release: str, counters: Mapping[VersionOf, Counters]) -> dict[VersionOf, Counters]:
    """Return the counters of another release's pod, which may have the same versions: see `Canary.old_release`."""
    return {(_model_of(release, model), version): counted for (model, version), counted in counters.items()}


def _model_of(release: str, model: str) -> str:
    return f"{release}/{model}"


class Tally:
    """Counts the requests of each version since the first look at each pod.

    Earlier counts, such as warm-up and golden inferences, are subtracted. If a pod restarts, its counters start again.
    """

    def __init__(self) -> None:
        self._first: dict[tuple[str, VersionOf], Counters] = {}
        self._last: dict[tuple[str, VersionOf], Counters] = {}
        self._closed: dict[VersionOf, Counters] = {}

    def add(self, uid: str, counters: Mapping[VersionOf, Counters]) -> None:
        """Record the current counters of the pod."""
        for version, now in counters.items():
            key = (uid, version)
            last = self._last.get(key)
            if last is None or now.finished < last.finished:
                if last is not None:
                    self._closed[version] = self._closed.get(version, Counters()) + last.since(self._first[key])
                self._first[key] = now
            self._last[key] = now

    def of(self, version: VersionOf) -> Counters:
        """Return the counters of this version, summed over all pods."""
        total = self._closed.get(version, Counters())
        for key, last in self._last.items():
            if key[1] == version:
                total = total + last.since(self._first[key])
        return total


@dataclass
class _Windows:
    """The times in the model of a new and an old version. There is one ratio for each window of requests of both."""

    log_ratios: list[float] = field(default_factory=list)
    _ends: list[float] = field(default_factory=list)
    _new: Counters = field(default_factory=Counters)
    _old: Counters = field(default_factory=Counters)

    @property
    def seconds(self) -> float:
        """Return the seconds from the end of the first window to the end of the last."""
        return self._ends[-1] - self._ends[0] if self._ends else 0.0

    def add(self, new: Counters, old: Counters, now: float) -> None:
        new_part, old_part = new.since(self._new), old.since(self._old)
        if min(new_part.success, old_part.success) < _WINDOW_REQUESTS:
            return
        if new_part.mean_in_model_ms > 0 and old_part.mean_in_model_ms > 0:
            self.log_ratios.append(log(new_part.mean_in_model_ms / old_part.mean_in_model_ms))
            self._ends.append(now)
        self._new, self._old = new, old


class Gate:
    """Judges canaries by what their pods count after the first look.

    `watched`: the canaries get all requests, so the old version is judged by its counters before the first look. `clock`
    returns seconds.
    """

    def __init__(
        self,
        canaries: Sequence[Canary],
        terms: Terms,
        *,
        watched: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._canaries = canaries
        self._clock = clock
        self._terms = terms
        self._watched = watched
        self._tally = Tally()
        self._windows = {canary: _Windows() for canary in canaries}
        self._before: dict[VersionOf, Counters] | None = None

    def look(self, counters: Mapping[str, Mapping[VersionOf, Counters]]) -> None:
        """Record the current counters of each pod, by uid."""
        if self._before is None:
            self._before = {}
            for found in counters.values():
                for version, did in found.items():
                    self._before[version] = self._before.get(version, Counters()) + did
        for uid, found in counters.items():
            self._tally.add(uid, found)
        for canary in self._canaries:
            self._windows[canary].add(*self._both(canary), self._clock())

    def breaches(self) -> list[str]:
        """Return the reasons why a canary must not get more requests, a sentence each."""
        return [
            f"{_name(canary)}: {finding.seen}"
            for canary in self._canaries
            for finding in self._questions(canary)
            if finding.weight >= REFUSE
        ]

    def undecided(self) -> list[str]:
        """Return the questions that need more requests before a canary may get more, a sentence each."""
        sentences = []
        for canary in self._canaries:
            requests = self._both(canary)[0].finished
            open_ = [finding for finding in self._questions(canary) if finding.weight > PASS]
            if requests < self._terms.requests:
                sentences.append(f"{_name(canary)} got {requests:.0f} of {self._terms.requests} requests")
            elif open_:
                sentences.append(f"{_name(canary)}: {open_[0].seen}; {open_[0].asked}")
        return sentences

    def figures(self) -> list[str]:
        """Return the figures of each canary, a line each."""
        return [f"{_name(canary)}: {'; '.join(f.seen for f in self._questions(canary))}" for canary in self._canaries]

    def _both(self, canary: Canary) -> tuple[Counters, Counters]:
        new = self._tally.of((canary.model, canary.version))
        old = canary.old_counted
        if old is None:
            return new, Counters()
        return new, (self._before or {}).get(old, Counters()) if self._watched else self._tally.of(old)

    def _questions(self, canary: Canary) -> Iterator[Finding]:
        new, old = self._both(canary)
        allowed = self._terms.failing
        yield Finding(
            self._worse(new.failure, new.judged, old.failure, old.judged, allowed, _TIMES),
            f"{_share(new.failure, new.judged)} requests failed, {_percent(allowed)} may"
            f"{self._of_old(canary, old.failure, old.judged)}",
            f"it takes {likelihood.requests_that_clear(allowed, _TIMES, PASS)} without a failure to tell that no more than "
            f"{_percent(allowed)} fail",
        )
        yield Finding(
            self._worse(new.canceled, new.finished, old.canceled, old.finished, _CANCELED, _TIMES),
            f"{_share(new.canceled, new.finished)} were given up by their clients"
            f"{self._of_old(canary, old.canceled, old.finished)}",
            f"they do not tell whether clients give up more than {_percent(_CANCELED)}",
        )
        if canary.slo_p95_ms is not None:
            yield self._late(canary, canary.slo_p95_ms, new, old)
        if canary.compared and not self._watched:
            yield self._slower(canary, new, old)

    def _worse(self, bad: float, total: float, old_bad: float, old_total: float, share: float, times: float) -> float:
        """Return the weight of: worse than allowed, and worse than the old version."""
        weight = likelihood.above_share(bad, total, share, times)
        if self._watched and not old_total:
            return weight
        return min(weight, likelihood.above_other(bad, total, old_bad, old_total, times))

    def _late(self, canary: Canary, slo_ms: float, new: Counters, old: Counters) -> Finding:
        late, old_late = new.over(slo_ms), old.over(slo_ms)
        if late is not None:
            old_over = old_late or (0.0, 0.0)
            return Finding(
                self._worse(*late, *old_over, _LATE, _TIMES_LATE),
                f"{_share(*late)} took over {slo_ms:g} ms, {_percent(_LATE)} may{self._of_old(canary, *old_over)}",
                f"they do not tell whether more than {_percent(_LATE)} take over {slo_ms:g} ms",
            )
        # Without a histogram there is one certain conclusion: if even the mean exceeds the SLO, the p95 does too.
        enough = new.success >= self._terms.requests
        slow = new.mean_ms > slo_ms and not old.mean_ms > slo_ms
        return Finding(
            (inf if slow else -inf) if enough else 0.0,
            f"requests take {new.mean_ms:.1f} ms on average, sloP95Ms is {slo_ms:g}",
            f"{self._terms.requests} answers make a mean",
        )

    def _slower(self, canary: Canary, new: Counters, old: Counters) -> Finding:
        by, windows = self._terms.slower, self._windows[canary]
        # Load on only one of the two versions passes with time, and a quick decision is not worth refusing a right version.
        # The SLO question detects a version that is too slow.
        enough = windows.seconds >= self._terms.seconds
        return Finding(
            likelihood.slower(windows.log_ratios, by) if enough else 0.0,
            f"{new.mean_in_model_ms:.2f} ms in the model, {canary.old_name} {old.mean_in_model_ms:.2f} ms",
            f"they do not tell whether it is {_percent(by)} slower than {canary.old_name}",
        )

    def _of_old(self, canary: Canary, bad: float, total: float) -> str:
        if self._watched and not total:
            return ""
        return f" ({canary.old_name}{' before' if self._watched else ''}: {_share(bad, total)})"


def _name(canary: Canary) -> str:
    return f"{canary.model} version {canary.version}"


def _share(bad: float, total: float) -> str:
    return f"{bad:.0f} of {total:.0f}" + (f" ({bad / total:.1%})" if bad else "")


def _percent(share: float) -> str:
    return f"{share * 100:.3g}%"
