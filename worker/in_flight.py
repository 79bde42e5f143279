"""Keep messages in flight, which are received and not deleted, invisible to other workers."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import structlog

from worker.aws import AWS_ERRORS, code
from worker.batches import EntryRefused
from worker.metrics import Metrics
from worker.queue import Message, RequestQueue

log = structlog.get_logger()


@dataclass
class _Held:
    extend_at: float
    kept: bool = True
    extension: asyncio.Task[None] | None = None
    """The running extension."""


class InFlight:
    """Extends each message's visibility when half of it is over. It stops when the message is no longer in flight."""

    def __init__(self, queue: RequestQueue, visibility_seconds: int, metrics: Metrics) -> None:
        self._queue = queue
        self._half = visibility_seconds / 2
        self._metrics = metrics
        self._held: dict[Message, _Held] = {}

    def __len__(self) -> int:
        return len(self._held)

    def messages(self) -> list[Message]:
        """Return the messages that are in flight now."""
        return list(self._held)

    def take(self, message: Message) -> None:
        """Add a message that was just received."""
        self._held[message] = _Held(time.monotonic() + self._half)
        self._metrics.in_hand.set(len(self))

    def finished(self, message: Message) -> None:
        """Record that only the deletion of the message remains, so it is no longer extended."""
        if message in self._held:
            self._held[message].kept = False

    async def release(self, message: Message) -> None:
        """Wait until no extension of the message runs. It would overwrite a later change of the visibility."""
        self.finished(message)
        held = self._held.get(message)
        if held is not None and held.extension is not None:
            await asyncio.wait({held.extension})

    def drop(self, message: Message) -> None:
        """Remove a message that is finished or returned."""
        self._held.pop(message, None)
        self._metrics.in_hand.set(len(self))

    async def keep(self) -> None:
        """Extend all due messages, forever. No message waits for the extension of another."""
        while True:
            await asyncio.sleep(self._half / 4)
            soon = time.monotonic() + self._half / 4
            for message, held in self._held.items():
                if held.kept and held.extension is None and held.extend_at <= soon:
                    held.extension = asyncio.create_task(self._extend(message, held))

    async def _extend(self, message: Message, held: _Held) -> None:
        begun = time.monotonic()
        try:
            await self._queue.keep(message)
            held.extend_at = begun + self._half
        except EntryRefused as error:
            # Its visibility expired and another worker has it, or it was deleted. The store accepts only one result anyway.
            self._not_extended(message, held, str(error))
            held.kept = False
        except AWS_ERRORS as error:
            self._not_extended(message, held, code(error))  # tried again in the next round
        except Exception:
            log.exception("the worker's own fault", message=message.id)
        finally:
            held.extension = None

    def _not_extended(self, message: Message, held: _Held, detail: str) -> None:
        if held.kept:
            log.warning("not extended", message=message.id, detail=detail)
            self._metrics.extensions_failed.inc()
