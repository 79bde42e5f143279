"""Group single calls into AWS batches of ten; each entry succeeds or fails separately."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

Entry = dict[str, Any]
Send = Callable[[list[Entry]], Awaitable[dict[str, str]]]
"""Sends entries with their `Id` set. Returns the reason of each entry that AWS refused, by its id."""
LARGEST = 10
_LINGER_SECONDS = 0.02


class EntryRefused(Exception):
    """AWS refused this entry of a batch; the text is the reason."""


class Batcher:
    """Groups entries that arrive within a moment into one call."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: list[tuple[Entry, asyncio.Future[None]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._sending: set[asyncio.Task[None]] = set()

    async def add(self, entry: Entry) -> None:
        """Add an entry and return when AWS has accepted it. Raises EntryRefused, and the errors of `send`."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting.append((entry, future))
        if len(self._waiting) == LARGEST:
            self._flush()
        elif self._timer is None:
            self._timer = loop.call_later(_LINGER_SECONDS, self._flush)
        await future

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch, self._waiting = self._waiting, []
        if batch:
            task = asyncio.create_task(self._deliver(batch))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _deliver(self, batch: list[tuple[Entry, asyncio.Future[None]]]) -> None:
        try:
            refused = await self._send([{**entry, "Id": str(number)} for number, (entry, _) in enumerate(batch)])
        except Exception as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for number, (_, future) in enumerate(batch):
            if future.done():
                continue
            reason = refused.get(str(number))
            if reason is None:
                future.set_result(None)
            else:
                future.set_exception(EntryRefused(reason))
