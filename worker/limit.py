"""Limit the number of concurrent requests to Triton."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from worker.failures import Stopping

_COOL_DOWN_SECONDS = 1.0
"""Requests that are refused together count as one refusal: the limit falls once for all of them."""


class ConcurrencyLimit:
    """Additive increase, multiplicative decrease, between 1 and `most`.

    Triton answers UNAVAILABLE when its queue is full. Halving the limit leaves room for clients that call Triton directly.
    The limit recovers by one for each `limit` answers.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._limit = float(most)
        self._running = 0
        self._clock = clock
        self._fell_at = float("-inf")
        self._changed = asyncio.Event()
        self._closed = False

    @property
    def value(self) -> int:
        """Return the current limit."""
        return int(self._limit)

    @property
    def running(self) -> int:
        """Return the number of running requests."""
        return self._running

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Hold a slot for one request. Raises Stopping once the limit is closed."""
        while not self._closed and self._running >= self.value:
            await self._changed.wait()
        if self._closed:
            raise Stopping
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            self._wake()

    def answered(self) -> None:
        """Record that Triton has answered a request."""
        self._limit = min(self._most, self._limit + 1 / self._limit)
        self._wake()

    def refused(self) -> None:
        """Record that Triton has refused a request or is down."""
        now = self._clock()
        if now - self._fell_at >= _COOL_DOWN_SECONDS:
            self._fell_at = now
            self._limit = max(1.0, self._limit / 2)

    def close(self) -> None:
        """Grant no more slots; running requests keep theirs."""
        self._closed = True
        self._wake()

    def _wake(self) -> None:
        """Let all waiting tasks check again."""
        self._changed.set()
        self._changed = asyncio.Event()
