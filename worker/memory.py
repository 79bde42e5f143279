"""Limit the memory of a worker for inputs from the bucket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class InputMemory:
    """Bytes of objects that requests have in memory at the same time, at most `most`.

    Requests are served in order of arrival, so small ones do not block a large one forever.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._free = most
        self._freed = asyncio.Event()
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def hold(self, size: int) -> AsyncIterator[None]:
        """Hold `size` bytes, at most `most`, as soon as they are free."""
        async with self._turn:
            while size > self._free:
                self._freed.clear()
                await self._freed.wait()
            self._free -= size
        try:
            yield
        finally:
            self._free += size
            self._freed.set()
