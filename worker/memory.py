"""The memory of a worker that inputs from the bucket may take."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class InputMemory:
    """Bytes of objects that requests have in memory at the same time, at most `most`.

    Requests get their turn in the order of their arrival: small ones do not keep a large one waiting for ever.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._free = most
        self._freed = asyncio.Event()
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def hold(self, size: int) -> AsyncIterator[None]:
        """Hold `size` bytes, of which there are no more than `most`, as soon as they are free."""
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
