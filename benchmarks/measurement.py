"""Record the conditions of a measurement and write its record; refuse a busy machine."""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from math import sqrt
from pathlib import Path
from statistics import mean, stdev

from pydantic import BaseModel, ConfigDict

from modelctl.tune import evidence
from spec.files import rewrite

RESULTS = Path(__file__).resolve().parent / "results"
_PATIENCE_SECONDS = 300.0
"""The load average covers a minute, so it still includes work that has just ended, such as the previous measurement."""
_POLICIES = {
    os.SCHED_OTHER: "SCHED_OTHER",
    os.SCHED_FIFO: "SCHED_FIFO",
    os.SCHED_RR: "SCHED_RR",
    os.SCHED_BATCH: "SCHED_BATCH",
}


_T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
"""97.5th percentile of Student's t by the number of rounds."""


class Record(BaseModel):
    """A part of a record in `results/`."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Conditions(Record):
    """The conditions of a measurement. `scheduling`: its and its servers' policy, priority and nice value (`chrt`, `nice`).

    `busy`: the machine had other work at the beginning, so the figures do not describe the servers.
    """

    command: str
    scheduling: str
    load_before: float
    busy: bool


def conditions(*, allow_busy: bool) -> Conditions:
    """Return the conditions of the next measurement. Exits if the machine stays busy, unless that is allowed."""
    load = evidence.load_average()
    most = evidence.most_load()
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while load > most and not allow_busy and time.monotonic() < deadline:
        print(f"waiting: the load average is {load:g}, and a measurement begins at {most:g} at most", file=sys.stderr)
        time.sleep(15)
        load = evidence.load_average()
    busy = load > most
    if busy and not allow_busy:
        raise SystemExit(
            f"error: the machine is busy: its load average is {load:g}, and a measurement begins at {most:g} at most; "
            "wait, or give --busy, which marks the record"
        )
    policy = os.sched_getscheduler(0)
    priority = os.sched_getparam(0).sched_priority
    said = f"{_POLICIES.get(policy, policy)}, priority {priority}, nice {os.nice(0)}"
    return Conditions(command=shlex.join(["python", *sys.argv]), scheduling=said, load_before=load, busy=busy)


def interval(rounds: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean of two to ten rounds with its 95 % interval."""
    half = _T_95[len(rounds)] * stdev(rounds) / sqrt(len(rounds))
    return mean(rounds), mean(rounds) - half, mean(rounds) + half


def write(report: BaseModel, name: str, started: datetime, results: Path) -> Path:
    """Write a record as <name>-<date>-<8 hex of its content>.json; return the file."""
    digest = hashlib.sha256(report.model_dump_json().encode()).hexdigest()[:8]
    file = results / f"{name}-{started:%Y-%m-%d}-{digest}.json"
    rewrite(file, f"{report.model_dump_json()}\n".encode())
    return file
