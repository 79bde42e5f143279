"""Keep the real programs of a chart running: start them in order, restart them, and leave them running at the end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

import httpx

from twin.host import processes
from twin.host.home import TwinHome
from twin.host.processes import Record, Service
from twin.releases.chart import Announce, ChartFailed

log = logging.getLogger("twin.charts")
STOP_ORDER = 80
"""After the pods, before the control plane."""
_START_SECONDS = 60.0
_POLL_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 30.0

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Program:
    """A process to keep running. `answers` returns whether it is up; OSError and httpx.HTTPError mean: not yet.

    `seconds`: its time to start. `restarts`: restart it if it exits during that time, like a kubelet.
    """

    service: Service
    answers: Callable[[], Awaitable[bool]]
    seconds: float = _START_SECONDS
    restarts: bool = False


async def keep_running(home: TwinHome, programs: Sequence[Program], ready: Announce) -> None:
    """Start the programs in order, each when the one before answers, call `ready`, and restart them if they exit, forever.

    A program depends on the programs before it, so it is restarted after any of them. A running program with the same
    settings is kept. Raises ChartFailed, with the end of its log, for a program that does not start before `ready`. Later
    failures are logged and retried.
    """
    records = await _bring_up_all(home, programs)
    await ready()
    pause = 0.0
    while True:
        await asyncio.sleep(pause or _POLL_SECONDS)
        dead = next((index for index, record in enumerate(records) if not record.alive()), None)
        if dead is None:
            pause = 0.0
            continue
        log.warning("%s ended: starting it again", programs[dead].service.name)
        await stop(home, programs[dead].service.name)
        try:
            records = await _bring_up_all(home, programs)
        except ChartFailed as error:
            log.warning("%s", error)
            pause = min(_LONGEST_PAUSE_SECONDS, 2 * pause or 1.0)


async def stop(home: TwinHome, name: str) -> None:
    """Stop a program by its record, if it has one."""
    record = next((r for r in processes.records(home) if r.name == name), None)
    if record is not None:
        await _to_its_end(processes.stop, home, record)


async def answers(client: httpx.AsyncClient, url: str) -> bool:
    """Return whether a GET request to `url` returns 200."""
    return (await client.get(url)).status_code == 200


async def _to_its_end(work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Return the result of the blocking `work`.

    Cancellation waits for it, because its thread continues and would act on a process later.
    """
    working = asyncio.ensure_future(asyncio.to_thread(work, *arguments, **named))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait({working})
        raise


async def _bring_up_all(home: TwinHome, programs: Sequence[Program]) -> list[Record]:
    records: list[Record] = []
    renewed = False
    for program in programs:
        before = processes.find(home, program.service.name)
        if renewed:
            await stop(home, program.service.name)
        record = await _bring_up(home, program)
        renewed = renewed or record != before
        records.append(record)
    return records


async def _bring_up(home: TwinHome, program: Program) -> Record:
    service = program.service
    record = processes.find(home, service.name)
    if record is not None and record.fingerprint != service.fingerprint():
        await stop(home, service.name)
        record = None
    pause = 1.0
    try:
        async with asyncio.timeout(program.seconds):
            while True:
                if record is None:
                    record = await _to_its_end(processes.start, home, service)
                    log.info("started %s (process %d)", service.name, record.pid)
                while record.alive():
                    with contextlib.suppress(OSError, httpx.HTTPError):
                        if await program.answers():
                            return record
                    await asyncio.sleep(_POLL_SECONDS)
                if not program.restarts:
                    break
                log.warning("%s ended while it was starting: starting it again in %g s", service.name, pause)
                await asyncio.sleep(pause)
                record, pause = None, min(_LONGEST_PAUSE_SECONDS, 2 * pause)
        what = f"{service.name} ended while it was starting"
    except TimeoutError:
        what = f"{service.name} did not answer within {program.seconds:g} s"
    await stop(home, service.name)
    end = f" The end of {record.log}:\n{processes.tail(Path(record.log))}" if record is not None else ""
    raise ChartFailed(f"{what}.{end}")
