"""Measure with seeded simulations how well the gate of `modelctl rollout` detects bad canaries.

    python benchmarks/canary_gate.py

The gate is real and gets counters as pods export them. Simulated are Poisson arrivals, model times that vary with the
request and the machine's load, failures, and the clock.

Fixed before the first run; record each change next to the table in docs/canary-gate.md:

* metric: of 200 rollouts of each canary, the share that is rolled back, with its interval; the share that ends for too few
  requests; and the median time until either, or until the canary has all requests and has been watched;
* goals: a bad canary is found in 95 % of its rollouts, a good one is rolled back in at most 5 %;
* the same of 200 watches after rolling updates (`modelctl watch`), where "rolled back" is exit code 1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf, log, sqrt
from pathlib import Path
from statistics import median
from typing import Annotated, Literal

import numpy as np
import typer

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))  # run as a program, from the checkout

from benchmarks.measurement import RESULTS, Record, write  # noqa: E402
from modelctl.rollout.gate import Canary, Gate  # noqa: E402
from modelctl.rollout.limits import Limits  # noqa: E402
from modelctl.rollout.metrics import Counters, VersionOf  # noqa: E402
from modelctl.tune import evidence as record  # noqa: E402

FOUND_AT_LEAST, TAKEN_BACK_AT_MOST = 0.95, 0.05
STEPS = (5, 25)
SLO_MS, MODEL_MS, QUEUE_MS = 50.0, 20.0, 5.0
_SPREAD = 0.3
"""Spread of the model times, as a share of their mean."""
_DISTURBANCE, _DISTURBANCE_SECONDS = 0.1, 20.0
"""The machine's load makes both versions slower or faster by this share, for about this many seconds."""
_LOOK_SECONDS = 2.0
_NEW, _OLD = ("model", 2), ("model", 1)
_BOUNDS = np.array([SLO_MS / 2, SLO_MS, SLO_MS * 2])

Verdict = Literal["taken back", "not enough requests", "done"]


@dataclass(frozen=True)
class Case:
    """A new version and its faults. `outage_seconds`: from its beginning, a tenth of all requests fails for this time.

    `apart`: the load of each version's own pods changes its speed by this share, in addition to the common load.
    `failing_at_last`: the failing share once it has all requests, if different.
    """

    name: str
    bad: bool
    failing: float = 0.0
    old_failing: float = 0.0
    slower: float = 0.0
    rate: float = 100.0
    outage_seconds: float = 0.0
    apart: float = 0.0
    failing_at_last: float | None = None


CASES = (
    Case("right", bad=False),
    Case("fails 0.1 %, its budget", bad=False, failing=0.001),
    Case("fails 1 %, and so does the old version", bad=False, failing=0.01, old_failing=0.01),
    Case("right, in an outage of 20 s that fails a tenth of all", bad=False, outage_seconds=20),
    Case("5 % slower", bad=False, slower=0.05),
    Case("right, on pods that load makes 5 % slower or faster by themselves", bad=False, apart=0.05),
    Case("right, on pods that load makes 10 % slower or faster by themselves", bad=False, apart=0.1),
    Case("fails 0.5 %", bad=True, failing=0.005),
    Case("fails 2 %", bad=True, failing=0.02),
    Case("20 % slower", bad=True, slower=0.2),
    Case("20 % slower, on pods that load makes 5 % slower or faster by themselves", bad=True, slower=0.2, apart=0.05),
    Case("twice as slow: a quarter over the SLO", bad=True, slower=1.0),
    Case("fails 2 %, with 10 requests/s", bad=True, failing=0.02, rate=10),
    Case("fails 2 % once it has all requests", bad=True, failing_at_last=0.02),
    Case("fails 0.5 % once it has all requests", bad=True, failing_at_last=0.005),
)
WATCHED = (
    Case("right", bad=False),
    Case("fails 0.1 %, its budget", bad=False, failing=0.001),
    Case("right, in an outage of 20 s that fails a tenth of all", bad=False, outage_seconds=20),
    Case("right, with 10 requests/s", bad=False, rate=10),
    Case("fails 0.5 %", bad=True, failing=0.005),
    Case("fails 2 %", bad=True, failing=0.02),
    Case("fails 2 %, with 10 requests/s", bad=True, failing=0.02, rate=10),
    Case("20 % slower, within its SLO", bad=False, slower=0.2),
    Case("twice as slow: a quarter over the SLO", bad=True, slower=1.0),
)
"""New versions after a rolling update; `modelctl watch` has no old version to compare them with."""


class Row(Record):
    """The results of the rollouts, or watches, of one new version. `interval`: of the share rolled back (95 %, Wilson)."""

    name: str
    bad: bool
    rate: float
    rollouts: int
    taken_back: int
    share_taken_back: float
    interval: tuple[float, float]
    not_enough_requests: int
    median_seconds: float
    reached: bool


class Report(Record):
    """The whole simulation."""

    kind: str = "canary gate"
    started: datetime
    revision: str | None
    seed: int
    found_at_least: float = FOUND_AT_LEAST
    taken_back_at_most: float = TAKEN_BACK_AT_MOST
    rows: list[Row]
    watched: list[Row] = []  # noqa: RUF012 - a field of pydantic: each report has its own; records of before have none


class _Load:
    """Slows or speeds up requests by about this share, for about `_DISTURBANCE_SECONDS`; a logarithm."""

    def __init__(self, share: float, source: np.random.Generator) -> None:
        self._share, self._source = share, source
        self.now = float(source.normal(0, share))

    def pass_by(self) -> None:
        """Advance by one look."""
        kept = 1 - _LOOK_SECONDS / _DISTURBANCE_SECONDS
        self.now = kept * self.now + float(self._source.normal(0, self._share * sqrt(1 - kept**2)))


class _Pods:
    """Pods that count the requests of both versions."""

    def __init__(self, case: Case, source: np.random.Generator) -> None:
        self._case = case
        self._source = source
        self._of_all, self._of_new, self._of_old = (_Load(share, source) for share in (_DISTURBANCE, case.apart, case.apart))
        self._new = Counters()
        self._old = self._answers(20_000, case.old_failing, 1.0, self._of_old)

    def serve(self, share: float, outage: bool) -> None:
        """Advance by one look, with this share of the requests for the new version."""
        case = self._case
        for load in (self._of_all, self._of_new, self._of_old):
            load.pass_by()
        new, old = self._source.poisson([case.rate * _LOOK_SECONDS * part for part in (share, 1 - share)])
        extra = 0.1 if outage else 0.0
        failing = case.failing if share < 1 or case.failing_at_last is None else case.failing_at_last
        self._new = self._new + self._answers(int(new), failing + extra, 1 + case.slower, self._of_new)
        self._old = self._old + self._answers(int(old), case.old_failing + extra, 1.0, self._of_old)

    def counters(self) -> dict[str, dict[VersionOf, Counters]]:
        return {"pod": {_NEW: self._new, _OLD: self._old}}

    def _answers(self, requests: int, failing: float, times: float, own: _Load) -> Counters:
        failed = int(self._source.binomial(requests, failing))
        sigma = sqrt(log(1 + _SPREAD**2))
        # The mean of exp of a normal variable is above exp of its mean; the subtrahend corrects this.
        load = self._of_all.now + own.now
        in_model = self._source.lognormal(load - sigma**2 / 2, sigma, requests - failed) * MODEL_MS * times
        queue = self._source.exponential(QUEUE_MS, requests - failed)
        took = in_model + queue
        buckets = {float(bound): float((took <= bound).sum()) for bound in _BOUNDS} | {inf: float(len(took))}
        return Counters(len(took), failed, 0, float(took.sum()) * 1000, float(queue.sum()) * 1000, 0, buckets)


@dataclass
class _Clock:
    """Virtual time since a step began."""

    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


def simulate(case: Case, seed: int, limits: Limits | None = None) -> tuple[Verdict, float]:
    """Return how one rollout ends, and its seconds of canary steps and watch."""
    limits = limits or Limits()
    pods = _Pods(case, np.random.default_rng(seed))
    canary = Canary("model", 2, 1, SLO_MS)
    passed = 0.0
    clock = _Clock()
    for percent in STEPS:
        clock.seconds = 0.0
        gate = Gate([canary], limits.terms, clock=clock)
        gate.look(pods.counters())
        for seconds in _looks(limits.canary):
            clock.seconds = seconds
            pods.serve(percent / 100, outage=passed + seconds <= case.outage_seconds)
            gate.look(pods.counters())
            if gate.breaches():
                return "taken back", passed + seconds
            if seconds >= limits.terms.seconds and not gate.undecided():
                break
        else:
            return "not enough requests", passed + limits.canary
        passed += seconds
    gate = Gate([canary], limits.terms, watched=True)
    gate.look(pods.counters())
    for seconds in _looks(limits.watch):
        pods.serve(1, outage=False)
        gate.look(pods.counters())
        if gate.breaches():
            return "taken back", passed + seconds
    return "done", passed + limits.watch


def simulate_watch(case: Case, seed: int, limits: Limits | None = None) -> tuple[Verdict, float]:
    """Return how the watch after one rolling update ends, and its seconds."""
    limits = limits or Limits()
    pods = _Pods(case, np.random.default_rng(seed))
    gate = Gate([Canary("model", 2, None, SLO_MS)], limits.terms, watched=True)
    gate.look(pods.counters())
    for seconds in _looks(limits.watch):
        pods.serve(1, outage=seconds <= case.outage_seconds)
        gate.look(pods.counters())
        if gate.breaches():
            return "taken back", seconds
    return "not enough requests" if gate.undecided() else "done", limits.watch


def _looks(seconds: float) -> Iterator[float]:
    return (float(moment) for moment in np.arange(_LOOK_SECONDS, seconds + _LOOK_SECONDS / 2, _LOOK_SECONDS))


def row(case: Case, rollouts: int, seed: int, simulated: Callable[[Case, int], tuple[Verdict, float]] = simulate) -> Row:
    """Simulate this many rollouts, or watches, of a new version."""
    ended = [simulated(case, seed + number) for number in range(rollouts)]
    taken_back = sum(verdict == "taken back" for verdict, _ in ended)
    share = taken_back / rollouts
    return Row(
        name=case.name,
        bad=case.bad,
        rate=case.rate,
        rollouts=rollouts,
        taken_back=taken_back,
        share_taken_back=round(share, 4),
        interval=wilson(taken_back, rollouts),
        not_enough_requests=sum(verdict == "not enough requests" for verdict, _ in ended),
        median_seconds=median(seconds for _, seconds in ended),
        reached=share >= FOUND_AT_LEAST if case.bad else share <= TAKEN_BACK_AT_MOST,
    )


def wilson(count: int, total: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (https://en.wikipedia.org/wiki/Binomial_proportion_confidence_interval)."""
    z, share = 1.96, count / total
    middle = (share + z**2 / (2 * total)) / (1 + z**2 / total)
    half = z / (1 + z**2 / total) * sqrt(share * (1 - share) / total + z**2 / (4 * total**2))
    return round(max(0.0, middle - half), 4), round(min(1.0, middle + half), 4)


def table(rows: list[Row], what: str) -> list[str]:
    """Return the rows as a Markdown table; `what` is the heading of its first column."""
    lines = [
        f"| {what} | taken back (95 % interval) | not enough requests | median time | goal |",
        "|---|---|---:|---:|---|",
    ]
    for found in rows:
        low, high = found.interval
        goal = f"at least {FOUND_AT_LEAST:.0%}" if found.bad else f"at most {TAKEN_BACK_AT_MOST:.0%}"
        lines.append(
            f"| {found.name} | {found.share_taken_back:.1%} ({low:.1%} to {high:.1%}) | {found.not_enough_requests} of "
            f"{found.rollouts} | {found.median_seconds:.0f} s | {goal}{'' if found.reached else ': **missed**'} |"
        )
    return lines


def tables(report: Report) -> list[str]:
    """Return the report's tables as Markdown; the second one only if it has watches."""
    watched = ["", *table(report.watched, "after a rolling update")] if report.watched else []
    return [*table(report.rows, "canary"), *watched]


def main(
    rollouts: Annotated[int, typer.Option(min=1, help="Rollouts of each canary.")] = 200,
    seed: Annotated[int, typer.Option(help="Of all that is drawn.")] = 1,
    results: Annotated[Path, typer.Option(help="Directory for the results.")] = RESULTS,
) -> None:
    """Simulate rollouts of good and bad canaries, and count the gate's verdicts."""
    started, revision = datetime.now(UTC), record.revision()
    rows = [row(case, rollouts, seed) for case in CASES]
    watched = [row(case, rollouts, seed, simulate_watch) for case in WATCHED]
    report = Report(started=started, revision=revision, seed=seed, rows=rows, watched=watched)
    typer.echo("\n".join(tables(report)))
    typer.echo(f"written: {write(report, 'canary-gate', started, results)}")


if __name__ == "__main__":
    typer.run(main)
