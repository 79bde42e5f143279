"""Make the models of one pod of a twin slow: the processes that execute them are stopped for most of each cycle."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Mapping
from typing import Any

from benchmarks.local_process import descendants, name_of

STUB = "triton_python_backend_stub"
"""The process in which Triton's Python backend runs an instance of a model."""
_RUN_SECONDS = 0.02
"""Enough to answer an execution whose wait is over, and to begin the next one."""


class NoStub(Exception):
    """A pod without a process that executes a Python model; the text says which."""


def stubs_of(pod: Mapping[str, Any]) -> list[int]:
    """Return the processes of the pod's Python models. Raises NoStub.

    A container of a twin is called by the process of its server: `twin://PID-STARTED`.
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
    """Let these processes take `factor` times as long for an execution that waits for `seconds`, while the body runs.

    Each is stopped for the time of a slow execution and then runs for a moment, so that it ends one in each cycle. They run
    on afterwards, whatever happens.
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
