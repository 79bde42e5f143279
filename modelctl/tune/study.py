"""Search the candidate with the highest rate within the SLO, and the cheapest of equally good ones.

Optuna proposes candidates. Each proposal's value is the highest rate at which p95 stays within the SLO, so the constraint is
part of the value. Then the neighbours of the best are tried. The last part of the budget measures the best again in turns.
One short search on a machine with other work is not accurate to a few percent.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from modelctl.tune.candidate import Candidate, Space
from modelctl.tune.errors import SloUnreachable, TuneError
from modelctl.tune.goal import TO_CLAIM, TO_COMPARE, Goal, Length
from modelctl.tune.gpu_memory import MemoryUse
from modelctl.tune.rate_search import RESOLUTION, STEP, highest_rate
from modelctl.tune.subject import Probe, Subject

SEARCH_SHARE = 0.6
"""Share of the budget for the optimiser."""

NEIGHBOUR_SHARE = 0.75
"""Share of the budget until the neighbours of the best are tried. The rest is for measuring the best again."""

MOST_FINALISTS = 4
MOST_ROUNDS = 3
MOST_NOISE = 0.2
"""A larger spread means that no measurement is good. Candidates further apart never count as equal."""

REPEATED_PROPOSALS = 12
"""The search has converged after this many known proposals in a row."""

FEWEST_CANDIDATES = 2
"""The minimum to measure, however short the budget: with and without batching, so there is a choice."""

LOW_RATE_TRIES = 2
"""Number of loads at a low rate that must miss the SLO before it counts as missed."""

MOST_CLAIMS = 5
LESS = 0.12
"""Share by which a claim's rate is lowered if it does not hold. Short loads find too high a rate by chance."""

_LOADS = 20
"""The minimum number of loads for a useful search."""

Origin = Literal["prior", "search", "neighbour", "again", "claim"]


@dataclass
class Trial:
    """One measurement of a candidate. `rate`: the highest requests/s at which the SLO held, 0 for none."""

    number: int
    origin: Origin
    candidate: Candidate
    lone_p95_ms: float
    rate: float = 0.0
    probes: list[Probe] = field(default_factory=list)
    gpu_memory: MemoryUse | None = None


@dataclass(frozen=True)
class Winner:
    """The chosen candidate.

    `rate`: the median of its measurements, or less if that did not hold for longer. `noise`: the share within which
    candidates count as equal. `requests`: the number in the load that held at this rate. `low_rate`: a low rate in
    requests/s that held as well; None if it could not be missed.
    """

    candidate: Candidate
    rate: float
    noise: float
    requests: int = 0
    low_rate: float | None = None


class Watch:
    """Gets the progress of the search; this base class ignores it."""

    def probing(self, trial: Trial, rate: float) -> None:
        """Report that a load of `rate` requests/s begins."""

    def measured(self, trial: Trial) -> None:
        """Report that a trial is over."""


class Search:
    """One search. `trials` has all measurements so far, also after `run` raised an exception."""

    def __init__(
        self,
        subject: Subject,
        space: Space,
        goal: Goal,
        watch: Watch | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._subject, self._space, self._goal = subject, space, goal
        self._watch = watch or Watch()
        self._clock = clock
        self._start = clock()
        self._probes = 0
        self.trials: list[Trial] = []

    def run(self) -> Winner:
        """Run the search and return the winner. Raises SloUnreachable when the SLO holds at no rate, and the subject's
        errors."""
        self._search()
        self._try_the_neighbours()
        self._measure_the_best_again()
        stalled: set[Candidate] = set()
        while (chosen := choose(trial for trial in self.trials if trial.candidate not in stalled)) is not None:
            winner = self._claimed(chosen)
            if winner is not None:
                return winner
            stalled.add(chosen.candidate)
        held = [trial for trial in self.trials if trial.rate]
        if not held:
            fastest = min(self.trials, key=lambda trial: trial.lone_p95_ms)
            raise SloUnreachable(
                f"no configuration holds {self._goal} under load; a lone request has p95 "
                f"{fastest.lone_p95_ms:.1f} ms at best"
            )
        if not stalled:
            raise self._judged_by_chance()
        best = max(held, key=lambda trial: trial.rate)
        raise SloUnreachable(
            f"no configuration holds {self._goal} at {in_short(self._goal.low_rate(best.lone_p95_ms) or 0)} requests/s, "
            f"where a request may wait for the next one to wake it ({best.candidate} held it at {in_short(best.rate)}); "
            "allow more instances with --max-instances (docs/serving.md#known-limits-of-the-server)"
        )

    def _judged_by_chance(self) -> SloUnreachable:
        best = max(self.trials, key=lambda trial: trial.rate)
        return SloUnreachable(
            f"too much else goes on for {self._goal} to be judged: {best.candidate} held it at "
            f"{in_short(best.rate)} requests/s once and at no rate later; tune on a machine that does nothing else"
        )

    def _search(self) -> None:
        import optuna  # imported here, because it takes a second

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = optuna.samplers.TPESampler(seed=self._goal.seed, n_startup_trials=len(self._space.prior()) + 3)
        study = optuna.create_study(direction="maximize", sampler=sampler)
        space, prior = self._space, self._space.prior()
        # Use positions in the ascending values instead of the values, so neighbours are similar.
        for candidate in prior:
            study.enqueue_trial(
                {
                    "batch size": space.batch_sizes.index(candidate.max_batch_size),
                    "delay": space.delays_us.index(candidate.max_queue_delay_us),
                    "instances": space.instances.index(candidate.instances),
                }
            )
        known: dict[Candidate, float] = {}
        repeated = 0
        while len(known) < space.size and repeated < REPEATED_PROPOSALS:
            if len(known) >= FEWEST_CANDIDATES and self._over(SEARCH_SHARE):
                break
            proposal = study.ask()
            candidate = space.candidate(
                space.batch_sizes[proposal.suggest_int("batch size", 0, len(space.batch_sizes) - 1)],
                space.delays_us[proposal.suggest_int("delay", 0, len(space.delays_us) - 1)],
                space.instances[proposal.suggest_int("instances", 0, len(space.instances) - 1)],
            )
            repeated = repeated + 1 if candidate in known else 0
            if candidate not in known:
                origin: Origin = "prior" if candidate in prior else "search"
                known[candidate] = self._measure(candidate, origin).rate
            study.tell(proposal, known[candidate])

    def _try_the_neighbours(self) -> None:
        """Measure the best without its delay, and with one instance less or more. The optimiser does not propose these
        systematically."""
        while not self._over(NEIGHBOUR_SHARE) and (best := choose(self.trials)) is not None:
            known = {trial.candidate for trial in self.trials}
            unknown = [candidate for candidate in self._space.neighbours(best.candidate) if candidate not in known]
            if not unknown:
                return
            self._measure(unknown[0], "neighbour")

    def _measure_the_best_again(self) -> None:
        finalists = _finalists(self.trials)
        for _ in range(MOST_ROUNDS):
            for candidate in finalists:
                if self._over(1.0):
                    return
                self._measure(candidate, "again")

    def _measure(self, candidate: Candidate, origin: Origin) -> Trial:
        self._subject.use(candidate)
        lone = self._subject.lone_p95_ms()
        trial = Trial(len(self.trials) + 1, origin, candidate, lone)
        if not self.trials and lone > self._goal.slo_p95_ms:
            raise SloUnreachable(
                f"{self._goal} cannot be held even by one request at a time: without batching a lone "
                f"request has p95 {lone:.1f} ms"
            )
        earlier = [known.rate for known in self.trials if known.candidate == candidate]
        best = max((known.rate for known in self.trials), default=0.0)
        if lone <= self._goal.slo_p95_ms:
            guess = max(earlier, default=0.0) or best or 0.6 * 1000 / lone
            if not self.trials:
                self._refuse_too_short_a_budget(guess)

            def probe(rate: float) -> Probe:
                return self._probe(trial, rate, TO_COMPARE)

            low_rate = self._low_rate_below(guess, lone)
            if low_rate is None or self._holds_low_rate(trial, low_rate, TO_COMPARE):
                trial.rate = highest_rate(probe, guess, to_beat=0.0 if earlier else best)
            elif low_rate > best:  # a lower rate is useless if another candidate holds a higher one
                trial.rate = highest_rate(probe, low_rate / STEP**2, breaks=low_rate)
        trial.gpu_memory = self._subject.gpu_memory()
        self.trials.append(trial)
        self._watch.measured(trial)
        return trial

    def _probe(self, trial: Trial, rate: float, length: Length) -> Probe:
        return self._load(trial, rate, self._goal.probe_seconds(rate, length))

    def _load(self, trial: Trial, rate: float, seconds: float) -> Probe:
        self._watch.probing(trial, rate)
        self._probes += 1
        trial.probes.append(self._subject.probe(rate, seconds, self._goal.seed + self._probes))
        return trial.probes[-1]

    def _low_rate_below(self, rate: float, lone_ms: float) -> float | None:
        """Return the low rate at which the SLO may be missed although it holds at `rate`. None if there is none."""
        low_rate = self._goal.low_rate(lone_ms)
        return low_rate if low_rate is not None and low_rate < rate else None

    def _holds_low_rate(self, trial: Trial, rate: float, length: Length) -> bool:
        return any(self._load(trial, rate, self._goal.least_seconds(rate, length)).held for _ in range(LOW_RATE_TRIES))

    def _claimed(self, winner: Winner) -> Winner | None:
        """Hold the winner's rate, or a little less, for as many requests as the percentile needs. The budget does not limit
        this.

        Returns None when the SLO does not hold at a low rate. Raises SloUnreachable when it holds only there.
        """
        lone = min(trial.lone_p95_ms for trial in self.trials if trial.candidate == winner.candidate)
        trial, rate = Trial(len(self.trials) + 1, "claim", winner.candidate, lone), winner.rate
        self._subject.use(winner.candidate)
        low_rate = self._low_rate_below(rate, lone)
        stalls = low_rate is not None and not self._holds_low_rate(trial, low_rate, TO_CLAIM)
        for _ in range(0 if stalls else MOST_CLAIMS):
            probe = self._probe(trial, rate, TO_CLAIM)
            if probe.held:
                trial.rate = rate
                break
            rate *= 1 - LESS
        trial.gpu_memory = self._subject.gpu_memory()
        self.trials.append(trial)
        self._watch.measured(trial)
        if stalls:
            return None
        if not trial.rate:
            raise self._judged_by_chance()
        return replace(winner, rate=rate, requests=probe.summary.due, low_rate=low_rate)

    def _refuse_too_short_a_budget(self, rate: float) -> None:
        goal = self._goal
        needed = goal.probe_seconds(rate, TO_COMPARE)
        if needed <= goal.budget_seconds:
            return
        why = (
            f"at {in_short(rate)} requests/s, which this model may hold, the {goal.requests(TO_COMPARE)} requests that one "
            f"load needs to tell p{round(goal.objective * 100)} take"
            if needed > goal.overload_seconds(TO_COMPARE)
            else f"a load of {TO_COMPARE.slos:g} times the SLO, which shows that a rate is too high, takes"
        )
        raise TuneError(
            f"{why} {needed:.0f} s, and the budget is {goal.budget_seconds:g} s; "
            f"give --budget-seconds {math.ceil(needed) * _LOADS} or more"
        )

    def _over(self, share: float) -> bool:
        return self._clock() - self._start >= share * self._goal.budget_seconds


def choose(trials: Iterable[Trial]) -> Winner | None:
    """Return the cheapest candidate within noise of the best. None if no candidate held the SLO at any rate.

    A candidate counts with the median of its measurements (the lower of two). The noise is the widest spread among
    measurements of one candidate, and at least the resolution of a rate search. Once candidates were measured again, only
    those are compared, because the highest of many single measurements is the luckiest one.
    """
    rates: dict[Candidate, list[float]] = {}
    for trial in trials:
        rates.setdefault(trial.candidate, []).append(trial.rate)
    most = max(map(len, rates.values()), default=0)
    compared = {candidate: found for candidate, found in rates.items() if len(found) >= min(most, 2)}
    medians = {candidate: statistics.median_low(found) for candidate, found in compared.items()}
    best = max(medians.values(), default=0.0)
    if best == 0:
        return None
    spreads = [
        (max(found) - min(found)) / 2 / medians[candidate] for candidate, found in compared.items() if medians[candidate]
    ]
    noise = min(max(RESOLUTION, *spreads), MOST_NOISE)
    equal = [candidate for candidate, rate in medians.items() if rate >= best * (1 - noise)]
    winner = min(equal, key=lambda candidate: candidate.cost)
    return Winner(winner, medians[winner], noise)


def in_short(rate: float) -> str:
    """Return requests/s with only significant digits."""
    return f"{rate:.0f}" if rate >= 10 else f"{rate:.2g}"


def _finalists(trials: Iterable[Trial]) -> list[Candidate]:
    """Return the candidates to measure again: the best, and cheaper ones that may be equally good."""
    rates = {trial.candidate: trial.rate for trial in trials if trial.rate > 0}
    if not rates:
        return []
    best = max(rates, key=lambda candidate: rates[candidate])
    near = [candidate for candidate in rates if rates[candidate] >= rates[best] * (1 - MOST_NOISE)]
    near.sort(key=lambda candidate: candidate.cost)
    return list(dict.fromkeys([best, *near]))[:MOST_FINALISTS]
