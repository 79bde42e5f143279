"""A steady load through the gateway that accounts for every request."""

from __future__ import annotations

import asyncio
import threading

import numpy as np

from examples.failures import CallFailed
from examples.grpc_client import BalancedClient
from modelctl.loadgen import Account, RequestFailed, Result, Schedule, run
from modelctl.loadgen.result import SHED
from twin.host import processes

MODEL = "timed_batch"
RATE = 8.0
"""Requests a second. Each takes 155 ms or more, so a killed server has one or two of them."""
_SHED = ("Exceeds maximum queue size", "Request timeout expired")
_LONGEST_LOAD_SECONDS = 7200.0


class Load:
    """Sends requests through the gateway at their due times in a thread, by the client of the examples with its retries.

    Each request is for another sum, so another request's answer counts as a failure.
    """

    def __init__(self, target: str) -> None:
        self.answered = 0
        self.retried = 0
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._result: Result | None = None
        self._thread = threading.Thread(target=self._work)

    def start(self) -> None:
        """Start the load, and return after the first answer."""
        self._thread.start()
        processes.wait_until(lambda: self.answered > 0, "the load to be answered", 60, poll=0.2)

    def end(self) -> Account:
        """Stop sending, wait for open requests, and return the outcome of every request."""
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(timeout=60)
        assert self._result is not None, "the load did not come to its end"
        return self._result.account()

    @property
    def errors(self) -> dict[str, int]:
        """Return the codes of the requests without a correct answer, after the end."""
        assert self._result is not None
        return self._result.errors

    def _work(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            self._result = runner.run(self._send_all())

    async def _send_all(self) -> Result:
        async with BalancedClient(self._target) as client:

            async def send(number: int) -> str:
                try:
                    answer = await client.infer(MODEL, {"VALUES": np.array([[number, 0.5, 0, 0]], dtype=np.float32)})
                except CallFailed as failure:
                    is_shed = any(words in failure.message for words in _SHED)
                    raise RequestFailed(SHED if is_shed else f"{failure.code}: {failure.message[:200]}") from None
                if answer.outputs["SUM"].tolist() != [[number + 0.5]]:
                    raise RequestFailed(f"wrong: {answer.outputs}")
                self.answered += 1
                self.retried += answer.attempts > 1
                return answer.version

            return await run(Schedule.constant(RATE, _LONGEST_LOAD_SECONDS), send, end=self._end)
