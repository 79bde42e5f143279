"""Waits for what another task brings about; in tests without an event loop, `twin.host.processes.wait_until` does."""

import asyncio
from collections.abc import Callable
from typing import Any


async def until(condition: Callable[[], Any], what: str, seconds: float = 60.0) -> None:
    """Poll until the condition holds; AssertionError, with `what` was waited for, where it never does."""
    try:
        async with asyncio.timeout(seconds):
            while not condition():
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"waited {seconds:g} s in vain for {what}") from None
