"""Slow down the models of one twin pod: stop their processes for most of each cycle."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Mapping
from typing import Any

from benchmarks.local_process import descendants, name_of

STUB = "triton_python_backend_stub"
"""The process of Triton's Python backend for one model instance."""
_RUN_SECONDS = 0.02
"""Enough to answer an execution whose wait is over, and to start the next one."""


class NoStub(Exception):
    """The pod has no process that executes a Python model; the text names it."""


def stubs_of(pod: Mapping[str, Any]) -> list[int]:
    """Return the processes of the pod's Python models. Raises NoStub.

    A twin's container id contains the process of its server: `twin://PID-STARTED`.
    """
    found = []
    for status in pod["status"].get("containerStatuses", []):
        pid = status.get("containerID", "").removeprefix("twin://").partition("-")[0]
        found += [child for child in descendants(int(pid)) if name_of(child).startswith(STUB[:15])] if pid else []
    if not found:
        raise NoStub(f"pod {pod['metadata']['name']} has no process {STUB}, so that none of its models can be made slow")
    return found


@contextlib.asynccontextmanager
async def slowed(processes: list[int], seconds: float, factor: float) -> AsyncIterator[None]:
    """Make these processes take `factor` times as long for an execution of `seconds`, while the body runs.

    Each is stopped for the time of a slow execution and then runs briefly, so it finishes one per cycle. They always run
    again afterwards.
    """
    stopping = asyncio.create_task(_stop_and_go(processes, factor * seconds - _RUN_SECONDS))
    try:
        yield
    finally:
        stopping.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await stopping


async def _stop_and_go(processes: list[int], stopped_seconds: float) -> None:
    try:
        while True:
            _signal(processes, signal.SIGSTOP)
            await asyncio.sleep(stopped_seconds)
            _signal(processes, signal.SIGCONT)
            await asyncio.sleep(_RUN_SECONDS)
    finally:
        _signal(processes, signal.SIGCONT)


def _signal(processes: list[int], number: signal.Signals) -> None:
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
