"""The gate between the steps of a canary: what the new versions did with their share of the requests.

Read from each pod's own counters. Not seen there are requests that a full queue refused
(docs/facts/triton-metrics.md#refused-requests), so that a canary which is too slow shows in its durations before it
shows in failures. docs/canary-gate.md has the four questions, their error rates, and what simulated canaries came to.
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
"""Largest probability with which one question at one step refuses a version that is right."""
PASSED_WRONGLY = 0.05
"""Largest probability with which one question at one step lets a version pass that is as bad as it asks for."""

_TIMES = 5
"""A version is bad that fails this many times as often as its error budget lets it, and as the old one does."""
_LATE = 1 - objectives.LATENCY
_TIMES_LATE = 2
_CANCELED = 0.01
"""Share of requests that clients may give up without anybody asking why."""
_WINDOW_REQUESTS = 10
REFUSE, PASS = -log(REFUSED_WRONGLY), log(PASSED_WRONGLY)
"""Weights from which a question is answered: the version is refused, or nothing is held against it."""


@dataclass(frozen=True)
class Canary:
    """A new version on trial, and the old one that has the other requests (None: nothing is known of one).

    `slo_p95_ms`: the p95 (queue included) that the stack wants; None: it wants none. `compared`: the time in the model with
    the old version's, which has at least as many requests, so that the new one's batches are no longer. `old_release`: the
    release of the old version, where pods of its own serve it (`of_release`); None: the same pods serve both versions.
    """

    model: str
    version: int
    old: int | None
    slo_p95_ms: float | None
    compared: bool = True
    old_release: str | None = None

    @property
    def old_counted(self) -> VersionOf | None:
        """Return by what the requests of the old version are counted; None: nothing is known of one."""
        if self.old is None:
            return None
        return (self.model if self.old_release is None else _model_of(self.old_release, self.model)), self.old

    @property
    def old_name(self) -> str:
        """Return what people call the old version."""
        return f"version {self.old}" if self.old_release is None else f"release {self.old_release}"


@dataclass(frozen=True)
class Finding:
    """One question about one canary. `weight`: how much likelier (a logarithm) the bad answer is than the good one.

    `seen` are the figures, `asked` what more requests would tell.
    """

    weight: float
    seen: str
    asked: str


def of_release(release: str, counters: Mapping[VersionOf, Counters]) -> dict[VersionOf, Counters]:
    """Return the counters of a pod of another release, which may have the same versions: see `Canary.old_release`."""
    return {(_model_of(release, model), version): counted for (model, version), counted in counters.items()}


def _model_of(release: str, model: str) -> str:
    return f"{release}/{model}"


class Tally:
    """The requests of each version since each pod was first looked at: its counters before that, warm-up and golden
    inference among them, do not count, and those of a pod that restarted begin anew.
    """

    def __init__(self) -> None:
        self._first: dict[tuple[str, VersionOf], Counters] = {}
        self._last: dict[tuple[str, VersionOf], Counters] = {}
        self._closed: dict[VersionOf, Counters] = {}

    def add(self, uid: str, counters: Mapping[VersionOf, Counters]) -> None:
        """Note what the pod counts now."""
        for version, now in counters.items():
            key = (uid, version)
            last = self._last.get(key)
            if last is None or now.finished < last.finished:
                if last is not None:
                    self._closed[version] = self._closed.get(version, Counters()) + last.since(self._first[key])
                self._first[key] = now
            self._last[key] = now

    def of(self, version: VersionOf) -> Counters:
        """Return what all pods together did of this version."""
        total = self._closed.get(version, Counters())
        for key, last in self._last.items():
            if key[1] == version:
                total = total + last.since(self._first[key])
        return total


@dataclass
class _Windows:
    """The times in the model of a new and an old version, side by side: a ratio for each window of requests of both."""

    log_ratios: list[float] = field(default_factory=list)
    _ends: list[float] = field(default_factory=list)
    _new: Counters = field(default_factory=Counters)
    _old: Counters = field(default_factory=Counters)

    @property
    def seconds(self) -> float:
        """Return how long after the first window the last one ended."""
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
    """Judges canaries by what their pods count from the first look on.

    `watched`: they have all the requests, so that the old version can only be taken at what it did before the first look.
    `clock` returns seconds.
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
        """Note what each pod, by its uid, counts now."""
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
        """Return why a canary must not get more, a sentence each."""
        return [
            f"{_name(canary)}: {finding.seen}"
            for canary in self._canaries
            for finding in self._questions(canary)
            if finding.weight >= REFUSE
        ]

    def undecided(self) -> list[str]:
        """Return what more requests have to tell before a canary may have more, a sentence each."""
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
        """Return what was seen of each canary, a line each."""
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
        """Return the weight of: worse than it may be, and worse than the old version."""
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
        # Without a histogram there is one certain thing to say: when not even the mean is within the SLO, p95 is not.
        enough = new.success >= self._terms.requests
        slow = new.mean_ms > slo_ms and not old.mean_ms > slo_ms
        return Finding(
            (inf if slow else -inf) if enough else 0.0,
            f"requests take {new.mean_ms:.1f} ms on average, sloP95Ms is {slo_ms:g}",
            f"{self._terms.requests} answers make a mean",
        )

    def _slower(self, canary: Canary, new: Counters, old: Counters) -> Finding:
        by, windows = self._terms.slower, self._windows[canary]
        # Load that befalls one version and not the other passes: no hurry is worth a right version, and what is slow enough
        # to be late is found by that.
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
