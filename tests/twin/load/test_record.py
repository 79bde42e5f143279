"""Answers to a load, second by second."""

from modelctl.loadgen import Outcome
from twin.load.record import Tally


def answered(due: float, done: float) -> Outcome:
    return Outcome(due, due, done, "OK")


def test_a_moment_has_what_was_due_and_answered_since_the_one_before() -> None:
    tally = Tally([0.1, 0.5, 1.2, 1.4, 1.9, 5.0])
    tally.add(answered(0.1, 0.2))
    first = tally.moment(1.0, None)
    for due in (0.5, 1.2):
        tally.add(answered(due, due + 0.3))
    second = tally.moment(3.0, None)
    assert (first.offered, first.answered, first.p95_ms) == (2.0, 1.0, 100.0)
    assert (second.offered, second.answered, round(second.p95_ms or 0)) == (1.5, 1.0, 300)


def test_the_percentile_forgets_what_was_answered_long_ago() -> None:
    tally = Tally([0.0, 20.0])
    tally.add(answered(0.0, 5.0))
    assert tally.moment(6.0, None).p95_ms == 5000.0
    tally.add(answered(20.0, 20.25))
    assert tally.moment(21.0, None).p95_ms == 250.0
    assert tally.moment(40.0, None).p95_ms is None


def test_failures_are_counted_by_reason_and_stay_in_every_later_moment() -> None:
    tally = Tally([0.0, 0.1])
    tally.add(Outcome(0.0, 0.0, 0.1, "UNAVAILABLE"))
    tally.add(Outcome(0.1, 0.1, None, "UNFINISHED"))
    assert [tally.moment(at, None).failed for at in (1.0, 2.0)] == [2, 2]
    assert tally.failures == {"UNAVAILABLE": 1, "UNFINISHED": 1}


def test_the_moment_at_the_very_beginning_has_no_rate_out_of_all_proportion() -> None:
    tally = Tally([0.001, 0.002])
    tally.add(answered(0.001, 0.002))
    first = tally.moment(0.004, None)
    assert (first.offered, first.answered) == (2.0, 1.0)
