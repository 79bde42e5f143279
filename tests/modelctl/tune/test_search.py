"""The search on a formula as the server: the best configuration is known, and time passes only by its rules."""

import itertools
from dataclasses import dataclass, field

import pytest

from modelctl.loadgen import Summary
from modelctl.tune.candidate import Candidate, Space
from modelctl.tune.errors import SloUnreachable, TuneError
from modelctl.tune.goal import TO_CLAIM, TO_COMPARE, Goal, Length
from modelctl.tune.gpu_memory import MemoryUse
from modelctl.tune.rate_search import RESOLUTION, highest_rate
from modelctl.tune.study import Search, Trial, choose
from modelctl.tune.subject import Probe

SPACE = Space(batch_sizes=(1, 2, 4, 8, 16, 32), delays_us=(0, 250, 1000), instances=(1, 2, 3, 4))


def summary(rate: float, p95_ms: float) -> Summary:
    return Summary(100, 100, 1.0, rate, rate, p95_ms, p95_ms, p95_ms, p95_ms, p95_ms, 0.0, {}, {}, False)


@dataclass
class Formula:
    """A batch of b takes 10 + 2.5b ms, two instances have their own core, and p95 is two batches plus the delay.

    With an SLO of 60 ms the largest useful batch is 8 (2 x 30 ms), which two instances serve at 533 requests/s.
    """

    cores: int = 2
    now: float = 0.0
    used: list[Candidate] = field(default_factory=list)
    asked: list[float] = field(default_factory=list)
    slo: float = 60.0
    interrupt_after: int = 10_000

    def use(self, candidate: Candidate) -> None:
        if len(self.used) == self.interrupt_after:
            raise KeyboardInterrupt
        self.used.append(candidate)
        self.now += 1.5

    def batch_ms(self, size: int) -> float:
        return 10 + 2.5 * size

    def lone_p95_ms(self) -> float:
        self.now += 0.5
        return self.batch_ms(1) + self.used[-1].max_queue_delay_us / 1000

    def best_rate(self, candidate: Candidate) -> float:
        sizes = [size for size in range(1, candidate.max_batch_size + 1) if self.p95(size, candidate) <= self.slo]
        busy = min(candidate.instances, self.cores)
        return max((busy * size / self.batch_ms(size) * 1000 for size in sizes), default=0.0)

    def p95(self, size: int, candidate: Candidate) -> float:
        # More instances than cores slow each other down.
        crowding = max(1.0, candidate.instances / self.cores)
        return 2 * self.batch_ms(size) * crowding + candidate.max_queue_delay_us / 1000

    def probe(self, rate: float, seconds: float, seed: int) -> Probe:
        self.now += seconds
        self.asked.append(rate)
        held = rate <= self.best_rate(self.used[-1])
        return Probe(rate, seed, held, summary(rate, self.slo - 1 if held else self.slo + 1))

    def gpu_memory(self) -> MemoryUse:
        candidate = self.used[-1]
        return MemoryUse(500, 500 + 100 * candidate.instances, 500 + (100 + candidate.max_batch_size) * candidate.instances)


def searched(subject: Formula, budget: float = 600, space: Space = SPACE, seed: int = 1) -> Search:
    return Search(subject, space, Goal(subject.slo, budget, seed), clock=lambda: subject.now)


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_the_known_optimum_is_found_and_of_equals_the_cheapest_wins(seed: int) -> None:
    subject = Formula()

    winner = searched(subject, seed=seed).run()

    # Larger batches than 8 and delays are not better, so they are not chosen; nor are three instances on two cores.
    assert winner.candidate == Candidate(8, 0, 2)
    assert winner.rate == pytest.approx(2 * 8 / 30 * 1000, rel=RESOLUTION)
    assert winner.noise == RESOLUTION


def test_what_is_known_beforehand_is_tried_first() -> None:
    subject = Formula()

    searched(subject).run()

    assert subject.used[:4] == [Candidate(1, 0, 1), Candidate(32, 0, 1), Candidate(1, 0, 4), Candidate(32, 0, 4)]


def test_the_budget_is_kept_to_within_one_trial_and_the_claims() -> None:
    subject = Formula()

    search = searched(subject, budget=60)
    search.run()

    assert 60 <= subject.now < 60 + 20 + 460 / (1000 / 47.5)  # the last of 400 requests at a low rate
    assert [trial.origin for trial in search.trials][-2:] == ["again", "claim"]


def test_however_short_the_budget_there_is_something_to_choose_from() -> None:
    subject = Formula()

    winner = searched(subject, budget=4).run()

    assert subject.used == [Candidate(1, 0, 1), Candidate(32, 0, 1), Candidate(32, 0, 1)]  # the last one for the claim
    assert winner.candidate == Candidate(32, 0, 1)


@pytest.mark.parametrize(
    ("p99", "compared", "claimed", "least"), [(None, 40, 400, 0.924), (120.0, 200, 2000, 0.9846)], ids=["p95", "p99"]
)
def test_a_load_has_the_requests_that_its_percentile_needs(
    p99: float | None, compared: int, claimed: int, least: float
) -> None:
    goal = Goal(60, 20, 1, p99)
    assert (goal.requests(TO_COMPARE), goal.requests(TO_CLAIM)) == (compared, claimed)
    for length in (TO_COMPARE, TO_CLAIM):
        few = [rate * goal.probe_seconds(rate, length) for rate in (0.1, 10.0)]
        assert few == pytest.approx([goal.requests(length) + 3 * goal.requests(length) ** 0.5] * 2)
    assert goal.probe_seconds(10_000, TO_COMPARE) == 1.0
    assert goal.within_at_least(claimed) == pytest.approx(least, abs=0.001)


@pytest.mark.parametrize(("length", "seen"), [(TO_COMPARE, 1.22), (TO_CLAIM, 1.12)])
def test_a_load_lasts_until_a_rate_above_what_the_server_answers_misses_the_slo(length: Length, seen: float) -> None:
    goal = Goal(1000, 20, 1)
    seconds, answered = goal.probe_seconds(10_000, length), 10_000

    def p95(share: float) -> float:
        due = [number / (answered * share) for number in range(int(answered * share * seconds))]
        return 1000 * ((len(due) * 0.95) / answered - due[int(len(due) * 0.95)])

    assert p95(seen) > 1000
    assert p95(seen - 0.02) < 1000


def test_the_result_is_held_for_as_many_requests_as_it_needs_and_lowered_where_that_fails() -> None:
    subject = Formula(slo=60_000.0)
    subject.batch_ms = lambda size: 10_000.0 + 2_500 * size  # type: ignore[method-assign]
    requests: list[float] = []
    search, probe = searched(subject, budget=100_000), subject.probe

    def lucky(rate: float, seconds: float, seed: int) -> Probe:
        requests.append(rate * seconds)
        long_enough = rate * seconds > 400
        return Probe(rate, seed, False, summary(rate, 61_000)) if long_enough and rate > 0.48 else probe(rate, seconds, seed)

    subject.probe = lucky  # type: ignore[method-assign]
    winner = search.run()

    claim = search.trials[-1]
    assert (claim.origin, [held.held for held in claim.probes]) == ("claim", [False, True])
    assert requests[0] == pytest.approx(40 + 3 * 40**0.5)
    assert requests[-2:] == [pytest.approx(460)] * 2
    assert winner.rate == claim.rate == pytest.approx(claim.probes[0].rate * 0.88)
    assert winner.requests == 100  # the formula's value for each load


LOW_RATE = pytest.approx(1000 / 47.5)
"""Of the formula: the rate within its SLO of 60 ms for single requests of 12.5 ms."""


def stalling(subject: Formula, at_least_seconds: float = 0.0) -> Formula:
    """Return it with a stalling queue: a single batching instance misses the SLO from 5 to 40 requests/s."""
    probe = subject.probe

    def stalled(rate: float, seconds: float, seed: int) -> Probe:
        made, candidate = probe(rate, seconds, seed), subject.used[-1]
        stalls = candidate.instances == 1 and candidate.max_batch_size > 1 and 5 < rate < 40 and seconds >= at_least_seconds
        return Probe(rate, seed, False, summary(rate, 500)) if stalls else made

    subject.probe = stalled  # type: ignore[method-assign]
    return subject


def test_a_configuration_that_holds_high_rates_and_misses_low_ones_is_not_chosen() -> None:
    space = Space(batch_sizes=(1, 8), delays_us=(0,), instances=(1, 2))
    subject = Formula()
    subject.best_rate = lambda candidate: 50.0 * candidate.max_batch_size  # type: ignore[method-assign]
    assert searched(subject, space=space).run().candidate == Candidate(8, 0, 1)

    stalls = stalling(Formula())
    stalls.best_rate = subject.best_rate  # type: ignore[method-assign]
    search = searched(stalls, space=space)
    winner = search.run()
    assert (winner.candidate, winner.low_rate) == (Candidate(8, 0, 2), LOW_RATE)
    one = next(trial for trial in search.trials if trial.candidate == Candidate(8, 0, 1))
    assert (one.rate, [probe.rate for probe in one.probes]) == (0, [LOW_RATE, LOW_RATE])
    assert [(probe.rate, probe.held) for probe in search.trials[-1].probes] == [(LOW_RATE, True), (winner.rate, True)]


def test_a_low_rate_that_held_in_a_short_load_alone_is_found_out_before_anything_is_claimed() -> None:
    claimed = 20.0  # seconds: 400 requests at 21 requests/s, where 40 take 3 s
    space = Space(batch_sizes=(8,), delays_us=(0,), instances=(1, 2))
    subject = stalling(Formula(), claimed)
    subject.best_rate = lambda candidate: 400.0  # type: ignore[method-assign]
    search = searched(subject, space=space)

    assert search.run().candidate == Candidate(8, 0, 2)
    claims = [(trial.candidate.instances, len(trial.probes)) for trial in search.trials if trial.origin == "claim"]
    assert claims == [(1, 2), (2, 2)]

    with pytest.raises(SloUnreachable) as failure:
        searched(stalling(Formula(), claimed), space=Space((8,), (0,), (1,))).run()
    assert str(failure.value).startswith(
        "no configuration holds p95 <= 60 ms at 21 requests/s, where a request may wait for the next one to wake it "
        "(batch 8, delay 0 µs, 1 instance held it at 2"
    )


def test_where_nothing_else_is_possible_the_rates_below_the_low_one_are_searched() -> None:
    search = searched(stalling(Formula()), space=Space((8,), (0,), (1,)))
    winner = search.run()

    assert winner.rate == pytest.approx(5, rel=RESOLUTION)
    assert (winner.candidate, winner.low_rate) == (Candidate(8, 0, 1), None)
    sent = [[probe.rate == LOW_RATE for probe in trial.probes] for trial in search.trials]
    assert sent[0][:2] == [True, True]
    assert len(sent) > 2
    assert not any(itertools.chain(*sent[1:])), "what holds less than a low rate is not sent that rate again"


@pytest.mark.parametrize(
    ("goal", "lone_ms", "rate"),
    [
        (Goal(70, 60, 1), 30, 10),  # 30 % busy
        (Goal(100, 60, 1), 20, 12.5),
        (Goal(100, 60, 1), 5, None),  # 2 % find it busy and are late
        (Goal(100, 60, 1, slo_p99_ms=105), 5, 10),
        (Goal(600, 60, 1), 90, None),  # the stall is within the SLO
        (Goal(70, 60, 1), 80, None),
        (Goal(70, 60, 1, low_rates=False), 30, None),
    ],
)
def test_a_low_rate_is_that_of_most_late_requests_where_they_can_break_the_slo(
    goal: Goal, lone_ms: float, rate: float | None
) -> None:
    assert goal.low_rate(lone_ms) == (None if rate is None else pytest.approx(rate))


def test_a_model_slower_than_a_request_a_second_is_searched_too() -> None:
    subject = Formula(slo=60_000.0)
    subject.batch_ms = lambda size: 10_000.0 + 2_500 * size  # type: ignore[method-assign]

    winner = searched(subject, budget=100_000).run()

    assert winner.candidate == Candidate(8, 0, 2)
    assert winner.rate == pytest.approx(2 * 8 / 30, rel=RESOLUTION)


def test_a_budget_that_holds_no_load_is_refused_with_one_that_does() -> None:
    subject = Formula(slo=60_000.0)
    subject.batch_ms = lambda size: 10_000.0 + 2_500 * size  # type: ignore[method-assign]

    with pytest.raises(TuneError) as failure:
        searched(subject, budget=300).run()

    assert str(failure.value) == (
        "at 0.048 requests/s, which this model may hold, the 40 requests that one load needs to tell p95 take 1229 s, and "
        "the budget is 300 s; give --budget-seconds 24580 or more"
    )


def test_a_budget_below_a_load_that_shows_a_rate_as_too_high_says_so() -> None:
    subject = Formula(slo=60_000.0)

    with pytest.raises(TuneError) as failure:
        searched(subject, budget=200).run()

    assert str(failure.value) == (
        "a load of 5 times the SLO, which shows that a rate is too high, takes 300 s, and the budget is 200 s; "
        "give --budget-seconds 6000 or more"
    )


def test_a_small_space_is_searched_once_and_then_measured_again() -> None:
    subject = Formula()
    space = Space((0,), (0,), (1, 2))
    subject.best_rate = lambda candidate: 50.0 * candidate.instances  # type: ignore[method-assign]

    search = searched(subject, space=space)

    assert search.run().candidate == Candidate(0, 0, 2)
    assert [(trial.origin, trial.candidate.instances) for trial in search.trials][:2] == [("prior", 1), ("prior", 2)]
    assert {trial.origin for trial in search.trials[2:-1]} == {"again"}


def test_the_same_seed_gives_the_same_search() -> None:
    first, second, other = Formula(), Formula(), Formula()
    searched(first).run()
    searched(second).run()
    searched(other, seed=9).run()

    assert first.used == second.used
    assert first.asked == second.asked
    assert first.used != other.used


def test_an_slo_that_no_lone_request_keeps_ends_the_search_at_once() -> None:
    subject = Formula(slo=11)

    with pytest.raises(SloUnreachable) as failure:
        searched(subject).run()

    assert str(failure.value) == (
        "p95 <= 11 ms cannot be held even by one request at a time: without batching a lone request has p95 12.5 ms"
    )
    assert len(subject.used) == 1


def test_an_slo_that_holds_under_no_load_says_so() -> None:
    subject = Formula(slo=15)  # a single request takes 12.5 ms, but p95 under any load is two batches

    with pytest.raises(SloUnreachable) as failure:
        searched(subject, budget=120).run()

    assert str(failure.value) == ("no configuration holds p95 <= 15 ms under load; a lone request has p95 12.5 ms at best")


def test_a_machine_on_which_nothing_holds_twice_is_said_to_be_too_busy() -> None:
    subject = Formula()
    undisturbed = subject.best_rate
    subject.best_rate = lambda candidate: 0 if subject.now > 200 else undisturbed(candidate)  # type: ignore[method-assign]

    with pytest.raises(SloUnreachable) as failure:
        searched(subject).run()

    assert str(failure.value).startswith(
        "too much else goes on for p95 <= 60 ms to be judged: batch 32, delay 0 µs, 1 instance held "
    )
    assert str(failure.value).endswith("at no rate later; tune on a machine that does nothing else")


def test_an_interrupted_search_keeps_what_it_has_measured() -> None:
    subject = Formula(interrupt_after=3)
    search = searched(subject)

    with pytest.raises(KeyboardInterrupt):
        search.run()

    assert len(search.trials) == 3
    best = choose(search.trials)
    assert best is not None
    assert best.candidate == Candidate(32, 0, 1)


def trials(*measured: tuple[Candidate, float]) -> list[Trial]:
    return [Trial(number, "search", candidate, 10.0, rate) for number, (candidate, rate) in enumerate(measured, 1)]


def test_within_noise_fewer_instances_come_before_less_delay() -> None:
    one, delayed, two = Candidate(8, 0, 1), Candidate(8, 500, 1), Candidate(8, 0, 2)

    assert choose(trials((one, 80), (delayed, 97), (two, 100))).candidate == delayed  # type: ignore[union-attr]
    assert choose(trials((one, 97), (delayed, 97), (two, 100))).candidate == one  # type: ignore[union-attr]
    assert choose(trials((one, 80), (delayed, 80), (two, 100))).candidate == two  # type: ignore[union-attr]


def test_noise_is_what_repeated_measurements_differ_by() -> None:
    cheap, dear = Candidate(8, 0, 1), Candidate(8, 0, 2)

    winner = choose(trials((cheap, 91), (dear, 110), (cheap, 91), (dear, 90), (dear, 100)))

    assert winner is not None
    assert (winner.candidate, winner.rate, winner.noise) == (cheap, 91, 0.1)


def test_a_single_lucky_measurement_does_not_beat_one_that_was_repeated() -> None:
    lucky, steady = Candidate(16, 0, 1), Candidate(8, 0, 1)

    winner = choose(trials((lucky, 300), (steady, 100), (steady, 102)))

    assert winner is not None
    assert winner.candidate == steady


def test_nothing_is_chosen_where_nothing_held() -> None:
    assert choose(trials((Candidate(8, 0, 1), 0))) is None
    assert choose([]) is None


@pytest.mark.parametrize("truth", [1.5, 17, 100, 613, 4000])
@pytest.mark.parametrize("guess", [20, 150])
def test_the_highest_rate_is_bracketed_from_any_guess(truth: float, guess: float) -> None:
    asked = []

    def probe(rate: float) -> Probe:
        asked.append(rate)
        return Probe(rate, 0, rate <= truth, summary(rate, 1))

    found = highest_rate(probe, guess)

    # Nine loads bracket any value within an order of magnitude of the guess.
    if guess / 14 < truth < guess * 14:
        assert truth / (1 + RESOLUTION) <= found <= truth
    else:
        assert found <= truth
    assert len(asked) <= 9


def test_a_candidate_that_has_lost_is_measured_coarsely() -> None:
    loads = {}
    for to_beat in (0.0, 200.0):
        asked: list[float] = []

        def probe(rate: float, asked: list[float] = asked) -> Probe:
            asked.append(rate)
            return Probe(rate, 0, rate <= 90, summary(rate, 1))

        highest_rate(probe, 200, to_beat)
        loads[to_beat] = len(asked)

    assert loads[200.0] < loads[0.0]


def test_without_any_rate_that_holds_the_answer_is_zero() -> None:
    assert highest_rate(lambda rate: Probe(rate, 0, False, summary(rate, 1)), 40) == 0


def test_every_trial_says_what_it_took_of_a_gpu_the_last_one_too() -> None:
    search = searched(Formula())
    search.run()
    assert [trial.gpu_memory.taken_mib if trial.gpu_memory else None for trial in search.trials] == [
        (100 + trial.candidate.max_batch_size) * trial.candidate.instances for trial in search.trials
    ]
    assert search.trials[-1].origin == "claim"
