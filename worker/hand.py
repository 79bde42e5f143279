"""The messages that a worker has in hand, kept from others while it works on them."""

from __future__ import annotations

import asyncio
import time

import structlog

from worker.aws import AWS_ERRORS, code
from worker.batches import EntryRefused
from worker.metrics import Metrics
from worker.queue import Message, RequestQueue

log = structlog.get_logger()


class Hand:
    """Extends each message's visibility when half of it is over, for as long as it is in hand."""

    def __init__(self, queue: RequestQueue, visibility_seconds: int, metrics: Metrics) -> None:
        self._queue = queue
        self._half = visibility_seconds / 2
        self._metrics = metrics
        self._extend_at: dict[Message, float] = {}

    def __len__(self) -> int:
        return len(self._extend_at)

    def messages(self) -> list[Message]:
        """What is in hand now."""
        return list(self._extend_at)

    def take(self, message: Message) -> None:
        """The message was just received."""
        self._extend_at[message] = time.monotonic() + self._half
        self._metrics.in_hand.set(len(self))

    def drop(self, message: Message) -> None:
        """It is done with, or given back."""
        self._extend_at.pop(message, None)
        self._metrics.in_hand.set(len(self))

    async def keep(self) -> None:
        """For ever: extends what is due."""
        while True:
            await asyncio.sleep(self._half / 4)
            now = time.monotonic()
            due = [message for message, at in self._extend_at.items() if at <= now + self._half / 4]
            await asyncio.gather(*(self._extend(message) for message in due))

    async def _extend(self, message: Message) -> None:
        try:
            await self._queue.keep(message)
        except EntryRefused as error:
            # Its visibility ran out and somebody else has it, or it was deleted: the store takes one result anyway.
            if message in self._extend_at:
                log.warning("not extended", message=message.id, detail=str(error))
                self._metrics.extensions_failed.inc()
                self._extend_at[message] = float("inf")
        except AWS_ERRORS as error:
            log.warning("not extended yet", message=message.id, detail=code(error))
            self._metrics.extensions_failed.inc()
        else:
            if message in self._extend_at:
                self._extend_at[message] = time.monotonic() + self._half
