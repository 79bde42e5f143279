"""Send a schedule's requests when they are due."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from modelctl.loadgen.result import NOT_SENT, OK, UNFINISHED, Outcome, Result
from modelctl.loadgen.schedule import Schedule

Send = Callable[[int], Awaitable[str | None]]
"""Sends the request with a number (from 0) and returns a tag of the answer, like its version.

Raises RequestFailed when there is no good answer; any other exception is a bug and ends the run.
"""


class RequestFailed(Exception):
    """A request has no good answer; `code` is a short stable word, for example UNAVAILABLE."""

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(code)


async def run(
    schedule: Schedule,
    send: Send,
    *,
    max_in_flight: int = 1000,
    drain_seconds: float = 10.0,
    end: asyncio.Event | None = None,
    stop_when: Callable[[Outcome], bool] | None = None,
) -> Result:
    """Send every request at its due time, answered or not, and return the outcomes.

    At most `max_in_flight` requests are open at once. A further request waits, and its latency includes the wait, because it
    counts from the due time.

    The load ends with its schedule, or earlier when `end` is set; then later requests are no part of the result. The run
    ends when all are answered, at most `drain_seconds` after the load. It also ends when `stop_when`, called with each
    outcome, returns that there is no more to learn. Requests that are then open are cancelled and recorded as UNFINISHED,
    unsent ones as NOT_SENT: `Result.account` refuses such a result.
    """
    loop = asyncio.get_running_loop()
    start = loop.time()
    slots = asyncio.Semaphore(max_in_flight)
    sent: dict[int, float] = {}
    outcomes: dict[int, Outcome] = {}
    stop = asyncio.Event()
    end = end or asyncio.Event()
    due = schedule.due
    seconds = schedule.seconds

    async def request(number: int) -> None:
        async with slots:
            sent[number] = loop.time() - start
            code, tag = OK, None
            try:
                tag = await send(number)
            except RequestFailed as failure:
                code = failure.code
        outcomes[number] = Outcome(due[number], sent[number], loop.time() - start, code, tag)
        if stop_when is not None and stop_when(outcomes[number]):
            stop.set()

    async def send_all() -> None:
        nonlocal due, seconds
        async with asyncio.TaskGroup() as requests:
            for number, moment in enumerate(schedule.due):
                # Even without a wait the loop must get its turn, or overdue requests would go out before any answer is read.
                await asyncio.sleep(max(0.0, start + moment - loop.time()))
                if end.is_set():
                    due, seconds = schedule.due[:number], min(seconds, loop.time() - start)
                    break
                requests.create_task(request(number))

    async def drained() -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(end.wait(), schedule.seconds)
        await asyncio.sleep(drain_seconds)

    sending = asyncio.create_task(send_all())
    others = [asyncio.create_task(stop.wait()), asyncio.create_task(drained())]
    try:
        await asyncio.wait({sending, *others}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        failure = await _end(sending)
        for task in others:
            await _end(task)
    if failure is not None:
        raise failure
    for number, moment in enumerate(due):
        if number not in outcomes:
            outcomes[number] = Outcome(moment, sent.get(number), None, UNFINISHED if number in sent else NOT_SENT)
    return Result(tuple(outcomes[number] for number in range(len(due))), seconds, stopped=stop.is_set())


async def _end(task: asyncio.Task[Any]) -> BaseException | None:
    """Cancel a running task, wait for its end, and return its error."""
    task.cancel()
    await asyncio.wait({task})
    failure = None if task.cancelled() else task.exception()
    return failure.exceptions[0] if isinstance(failure, BaseExceptionGroup) else failure
