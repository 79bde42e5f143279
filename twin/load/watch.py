"""Watch a load from its start until the pods that it needed are gone again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from twin.load.display import Display
from twin.load.record import Moment
from twin.load.scaling import Scale

_PERIOD_SECONDS = 1.0


class Load(Protocol):
    """Something that is sent for a while, and answered."""

    async def run(self) -> None:
        """Send everything; return when all responses arrived, or never will."""

    async def moment(self, at: float, scale: Scale | None) -> Moment:
        """Return the figures since the moment before, `at` seconds after the start."""


Look = Callable[[], Awaitable[Scale | None]]


async def watch(
    load: Load, look: Look, show: Display, stop: asyncio.Event, follow_seconds: float | None = None
) -> list[Moment]:
    """Run the load, show a moment each second, and continue until the pods are as few as without a load.

    `follow_seconds`: the maximum time after the load; None: as long as the autoscaler's own times allow. `stop` ends it at
    the next moment, including the load. Raises what the load raises.
    """
    loop = asyncio.get_running_loop()
    begun = loop.time()
    running = asyncio.create_task(load.run())
    moments: list[Moment] = []
    until: float | None = None
    try:
        while not stop.is_set():
            await _until(begun + (_next(moments[-1].at) if moments else 0.0), stop)
            moment = await load.moment(loop.time() - begun, await look())
            moments.append(moment)
            show.show(moment)
            if not running.done():
                continue
            running.result()
            if until is None:
                until = moment.at + _following(moment.scale, follow_seconds, show)
            if moment.at >= until or (moment.scale is not None and moment.scale.at_rest):
                break
    finally:
        running.cancel()
        await asyncio.wait({running})
    return moments


def _following(scale: Scale | None, wanted: float | None, show: Display) -> float:
    """Return for how long the pods are still watched, and print that."""
    longest = scale.return_seconds if scale is not None else None
    if scale is None or longest is None or scale.at_rest:
        return 0.0
    seconds = longest if wanted is None else wanted
    if seconds:
        show.say(
            f"the load is over; following the pods until there {'is' if scale.fewest == 1 else 'are'} {scale.fewest} again, "
            f"for at most {seconds:.0f} s (Ctrl-C ends it)"
        )
    return seconds


def _next(at: float) -> float:
    """Return the next full period; a machine that is too busy skips some."""
    return (at // _PERIOD_SECONDS + 1) * _PERIOD_SECONDS


async def _until(moment: float, stop: asyncio.Event) -> None:
    """Wait until then, or until `stop`."""
    seconds = moment - asyncio.get_running_loop().time()
    if seconds > 0:
        try:
            await asyncio.wait_for(stop.wait(), seconds)
        except TimeoutError:
            return
