"""When to cut a load short: exactly if its p95 will exceed the SLO; and its requests then."""

import asyncio

import pytest

from modelctl.loadgen import Outcome, RequestFailed, Result, Schedule, run
from modelctl.loadgen.result import UNFINISHED
from modelctl.tune.served_model import WARM_UP_SECONDS, _answered, breaks_slo

SCHEDULE = Schedule.constant(rate=40, seconds=WARM_UP_SECONDS + 1)
"""20 requests of warm-up and 40 counted ones, of which two may be late."""


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


def test_requests_of_a_load_that_is_cut_short_are_answered_and_not_cancelled() -> None:
    ended: list[str] = []

    async def send(number: int) -> None:
        try:
            await asyncio.sleep(0.2)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        ended.append("answered")
        raise RequestFailed("SHED")  # later failures are ignored, and do not stop the search either

    async def load() -> Result:
        async with _answered(send) as kept:
            return await run(Schedule.constant(rate=50, seconds=0.1), kept, drain_seconds=0)

    result = asyncio.run(load())
    assert {outcome.code for outcome in result.outcomes} == {UNFINISHED}
    assert ended == ["answered"] * len(result.outcomes)
