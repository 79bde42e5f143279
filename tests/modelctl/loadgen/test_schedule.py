"""Due times of requests."""

import itertools
import statistics

import pytest

from modelctl.loadgen import Schedule


def test_a_constant_schedule_has_equal_gaps_and_starts_at_once() -> None:
    assert Schedule.constant(rate=4, seconds=1.25) == Schedule((0, 0.25, 0.5, 0.75, 1.0), 1.25)


def test_a_poisson_schedule_is_the_same_for_the_same_seed_only() -> None:
    assert Schedule.poisson(50, 10, seed=3) == Schedule.poisson(50, 10, seed=3)
    assert Schedule.poisson(50, 10, seed=3) != Schedule.poisson(50, 10, seed=4)


def test_the_gaps_of_a_poisson_schedule_are_exponential() -> None:
    due = Schedule.poisson(100, 1000, seed=1).due
    gaps = [later - earlier for earlier, later in itertools.pairwise(due)]

    assert len(due) == pytest.approx(100_000, rel=0.02)
    assert statistics.pstdev(gaps) == pytest.approx(statistics.fmean(gaps), rel=0.02)
    assert sum(gap > 0.01 for gap in gaps) / len(gaps) == pytest.approx(0.3679, abs=0.01)  # 1/e exceed the mean


def test_the_real_rate_of_a_schedule_is_that_of_its_requests() -> None:
    assert Schedule((0.5, 1.0, 1.5), 2).rate == 1.5


@pytest.mark.parametrize(
    ("rate", "seconds", "sentence"),
    [
        (0, 1, "a load needs a positive rate and length, not 0 requests/s for 1 s"),
        (5, -1, "a load needs a positive rate and length, not 5 requests/s for -1 s"),
        (50_000, 60, "50000 requests/s for 60 s are more than 1000000 requests"),
    ],
)
def test_an_impossible_load_is_refused(rate: float, seconds: float, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Schedule.poisson(rate, seconds, seed=1)
    with pytest.raises(ValueError, match=sentence):
        Schedule.constant(rate, seconds)


@pytest.mark.parametrize("due", [(0.5, 0.25), (-0.1,), (0.5, 1.5)])
def test_due_times_ascend_within_the_load(due: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="due times must ascend within 0 and 1 s"):
        Schedule(due, 1)
