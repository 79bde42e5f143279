"""When a load is cut short: exactly when its p95 is beyond the SLO whatever comes."""

import pytest

from modelctl.loadgen import Outcome, Result, Schedule
from modelctl.tune.served_model import WARM_UP_SECONDS, breaks_slo

SCHEDULE = Schedule.constant(rate=40, seconds=WARM_UP_SECONDS + 1)
"""20 requests to warm up and 40 that count, of which two may be late."""


def outcomes(late: set[int]) -> list[Outcome]:
    return [Outcome(due, due, due + (0.2 if n in late else 0.01), "OK") for n, due in enumerate(SCHEDULE.due)]


def stopped_at(late: set[int], slo_ms: float = 100) -> int | None:
    broken = breaks_slo(SCHEDULE, {95: slo_ms})
    return next((number for number, outcome in enumerate(outcomes(late)) if broken(outcome)), None)


@pytest.mark.parametrize(("late", "stopped"), [(set(), None), ({30, 40}, None), ({30, 40, 50}, 50), ({30, 40, 50, 59}, 50)])
def test_a_load_is_cut_short_with_the_first_request_too_many(late: set[int], stopped: int | None) -> None:
    assert stopped_at(late) == stopped
    # Never a load that holds the SLO, always one that does not.
    assert (Result(tuple(outcomes(late)), SCHEDULE.seconds).after(WARM_UP_SECONDS).percentile_ms(95) > 100) == bool(stopped)


def test_the_warm_up_does_not_count() -> None:
    assert stopped_at(set(range(20)) | {30, 40}) is None


def test_a_request_without_an_answer_is_late() -> None:
    broken = breaks_slo(SCHEDULE, {95: 100})

    failed = [broken(Outcome(due, due, due, "UNAVAILABLE")) for due in SCHEDULE.due[20:24]]

    assert failed == [False, False, True, True]


def test_of_two_slos_the_one_that_breaks_first_ends_the_load() -> None:
    """Of 40 requests two may be late for p95, and none for p99."""
    broken = breaks_slo(SCHEDULE, {95: 100, 99: 150})

    assert next(number for number, outcome in enumerate(outcomes({30})) if broken(outcome)) == 30
