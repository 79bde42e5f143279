"""One deadline for a whole call, including retries.

Only UNAVAILABLE (HTTP: 503) is retried: the request was rejected before any work, or the connection broke, and stateless
inference may be repeated. DEADLINE_EXCEEDED is not retried: the time is up, and a second request would add load to an
overloaded server. NOT_FOUND is not retried, although servers before 25.05 return it to new gRPC calls while they drain
(docs/drain.md). It can also be a real error, and the pod's preStop sleep keeps clients away from a draining server.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, stop_before_delay, wait_random_exponential

from examples.failures import CallFailed

T = TypeVar("T")


@dataclass(frozen=True)
class RetryPolicy:
    """Limits of retries.

    `deadline_seconds` bounds the whole call. Waits are random, up to a bound that doubles from `first_wait_seconds` to
    `longest_wait_seconds`. The randomness keeps failed clients from retrying at the same time.
    """

    deadline_seconds: float = 5.0
    attempts: int = 5
    first_wait_seconds: float = 0.1
    longest_wait_seconds: float = 1.0

    async def call(self, send: Callable[[float], Awaitable[T]]) -> tuple[T, int]:
        """Return the answer of `send` and the number of attempts. `send` gets the remaining seconds, and raises CallFailed.

        Raises the last attempt's CallFailed with the number of attempts. No attempt begins after the deadline.
        """
        begun = time.monotonic()
        retrying = AsyncRetrying(
            retry=retry_if_exception(lambda error: isinstance(error, CallFailed) and error.code == "UNAVAILABLE"),
            stop=stop_after_attempt(self.attempts) | stop_before_delay(self.deadline_seconds),
            wait=wait_random_exponential(multiplier=self.first_wait_seconds, max=self.longest_wait_seconds),
            reraise=True,
        )
        number = 0
        last: CallFailed | None = None
        try:
            async for attempt in retrying:
                left = self.deadline_seconds - (time.monotonic() - begun)
                # The wait should end before the deadline, but a busy event loop may end it late.
                if last and left <= 0:
                    raise last
                number = attempt.retry_state.attempt_number
                with attempt:
                    try:
                        return await send(left), number
                    except CallFailed as failure:
                        last = failure
                        raise
        except CallFailed as failure:
            raise CallFailed(failure.code, failure.message, number) from None
        raise AssertionError("tenacity returns or raises")
