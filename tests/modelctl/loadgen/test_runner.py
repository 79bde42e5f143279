"""Records of a run, on a clock that stops while anything can run: every time is exact."""

import asyncio

import pytest

from modelctl.loadgen import Account, Outcome, RequestFailed, Result, Schedule, Send, Unaccounted, run
from tests.modelctl.loadgen.virtual_time import run_virtually


class OneWorker:
    """A server that takes one request at a time for `service` seconds, and stops from `stall` to `resume`."""

    def __init__(self, service: float, stall: float = 0.0, resume: float = 0.0) -> None:
        self._service, self._stall, self._resume = service, stall, resume
        self._worker = asyncio.Lock()

    async def __call__(self, number: int) -> str:
        async with self._worker:
            now = asyncio.get_running_loop().time()
            if self._stall <= now < self._resume:
                await asyncio.sleep(self._resume - now)
            await asyncio.sleep(self._service)
        return "1"


def measured(schedule: Schedule, send: Send, **options: object) -> Result:
    return run_virtually(run(schedule, send, **options))  # type: ignore[arg-type]


def latencies(result: Result) -> list[float]:
    return [outcome.latency_ms for outcome in result.outcomes]


def test_requests_go_out_when_they_are_due_and_not_when_the_last_answer_came() -> None:
    async def slow(_: int) -> None:
        await asyncio.sleep(4)

    result = measured(Schedule.constant(rate=4, seconds=1), slow)

    assert [outcome.sent for outcome in result.outcomes] == [0, 0.25, 0.5, 0.75]
    assert latencies(result) == [4000] * 4


def test_a_stall_of_the_server_shows_in_every_request_that_was_due_during_it() -> None:
    result = measured(Schedule.constant(rate=8, seconds=2), OneWorker(0.0625, stall=0.5, resume=1.0))

    # Due at 0.5, 0.625, 0.75, 0.875 during the stop; the backlog is done by 1.375.
    assert latencies(result) == [62.5] * 4 + [562.5, 500, 437.5, 375, 312.5, 250, 187.5, 125] + [62.5] * 4
    assert result.percentile_ms(75) == 312.5
    assert result.percentile_ms(100) == 562.5


def test_a_request_that_waits_for_a_slot_has_the_wait_in_its_latency() -> None:
    result = measured(Schedule.constant(rate=8, seconds=0.5), OneWorker(0.25), max_in_flight=1)

    assert [outcome.sent for outcome in result.outcomes] == [0, 0.25, 0.5, 0.75]
    assert latencies(result) == [250, 375, 500, 625]
    assert result.late_ms(100) == 375


def test_no_more_requests_are_open_than_allowed() -> None:
    open_now, most = 0, 0

    async def count(_: int) -> None:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        await asyncio.sleep(1)
        open_now -= 1

    measured(Schedule.constant(rate=100, seconds=1), count, max_in_flight=7, drain_seconds=60)

    assert most == 7


def test_failures_are_counted_by_code_and_answers_by_tag() -> None:
    async def mixed(number: int) -> str:
        if number % 4 == 3:
            raise RequestFailed("UNAVAILABLE")
        return "2" if number % 2 else "1"

    result = measured(Schedule.constant(rate=8, seconds=1), mixed)

    assert (result.ok, result.errors, result.tags) == (6, {"UNAVAILABLE": 2}, {"1": 4, "2": 2})
    assert result.outcomes[3] == Outcome(due=0.375, sent=0.375, done=0.375, code="UNAVAILABLE")
    assert result.throughput == 6


def test_the_run_ends_a_bounded_time_after_the_schedule() -> None:
    async def stuck(number: int) -> None:
        await asyncio.sleep(0 if number == 0 else 3600)

    result = measured(Schedule.constant(rate=2, seconds=2), stuck, max_in_flight=2, drain_seconds=1)

    assert [outcome.code for outcome in result.outcomes] == ["OK", "UNFINISHED", "UNFINISHED", "NOT_SENT"]
    assert result.errors == {"UNFINISHED": 2, "NOT_SENT": 1}
    assert not result.stopped


def test_a_hopeless_run_is_stopped_at_once() -> None:
    result = measured(
        Schedule.constant(rate=8, seconds=100),
        OneWorker(0.25),
        stop_when=lambda outcome: outcome.latency_ms > 400,
    )

    assert result.stopped
    assert [outcome.code for outcome in result.outcomes[:4]] == ["OK", "OK", "OK", "UNFINISHED"]
    assert result.errors["NOT_SENT"] > 700


def test_a_load_that_is_ended_waits_for_its_answers_and_accounts_for_every_request() -> None:
    async def ended_at(seconds: float, send: Send) -> Result:
        end = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, end.set)
        return await run(Schedule.constant(rate=4, seconds=100), send, drain_seconds=8, end=end)

    async def slow(number: int) -> None:
        await asyncio.sleep(4)
        if number:
            raise RequestFailed("SHED" if number == 1 else "INTERNAL")

    result = run_virtually(ended_at(0.6, slow))

    assert result.account() == Account(sent=3, answered=1, failed=1, shed=1)
    assert (result.end, result.stopped) == (0.75, False)
    assert max(outcome.done or 0 for outcome in result.outcomes) == 4.5


def test_a_load_that_is_cut_off_accounts_for_nothing() -> None:
    async def stuck(number: int) -> None:
        await asyncio.sleep(0 if number == 0 else 3600)

    result = measured(Schedule.constant(rate=2, seconds=2), stuck, max_in_flight=2, drain_seconds=1)

    with pytest.raises(Unaccounted, match="of 4 requests 2 had no answer and 1 were not sent when the load was cut off"):
        result.account()


def test_a_mistake_in_the_sender_ends_the_run_with_that_mistake() -> None:
    async def wrong(number: int) -> None:
        if number == 2:
            raise KeyError("input")

    with pytest.raises(KeyError, match="input"):
        measured(Schedule.constant(rate=8, seconds=100), wrong)


def test_a_cancelled_run_leaves_no_request_behind() -> None:
    ended = []

    async def endless(number: int) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(number)

    async def cancel_it() -> None:
        running = asyncio.create_task(run(Schedule.constant(rate=4, seconds=100), endless))
        await asyncio.sleep(0.6)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    run_virtually(cancel_it())

    assert sorted(ended) == [0, 1, 2]


def test_a_load_without_requests_is_a_result_too() -> None:
    result = measured(Schedule((), 1), OneWorker(1))

    assert (result.outcomes, result.ok, result.throughput, result.within(10)) == ((), 0, 0, 1)
