"""The evidence of a tuning run: every measurement, its machine and versions, and the winner."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from modelctl.loadgen import Pace
from modelctl.tune.candidate import Candidate
from modelctl.tune.study import Origin, Trial, Winner
from modelctl.tune.subject import Probe

REQUESTS = "requests by themselves"
STREAMS = "streams, of which the first response is judged"

MOST_BUSY = 0.25
"""Maximum runnable processes per CPU before the first measurement. With more, other work would distort the figures."""

CLIENT_PACKAGES = ("tritonclient", "grpcio", "numpy", "optuna")


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Machine(_Record):
    """The machine that generated the load. With `server_on_loopback`, the server ran there too, or behind a forwarded port.

    The load averages (over one minute, before and after) show how much other work ran there, which adds noise to every
    figure.
    """

    system: str
    cpu: str
    cpus: int
    load_before: float
    load_after: float
    server_on_loopback: bool


class Versions(_Record):
    """The versions of the server and the client. `revision`: of the checkout, with "-dirty" if it had changes; None outside
    git."""

    server: str
    python: str
    packages: Mapping[str, str]
    revision: str | None


class Values(_Record):
    """A candidate under the stack's key names. A batch size of 1 means no batching."""

    maxBatchSize: int
    maxQueueDelayUs: int
    instances: int


class LoadRecord(_Record):
    """One load of Poisson arrivals, without its warm-up.

    Latencies count from the scheduled time; a percentile that failures make infinite is null. `stopped`: cut short because
    the SLO could no longer hold.
    """

    rate: float = Field(description="requests/s asked for")
    seed: int
    held: bool
    due: int
    ok: int
    seconds: float
    throughput: float
    p50_ms: float | None
    p90_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    late_p95_ms: float = Field(description="how late the generator itself sent")
    errors: Mapping[str, int]
    stopped: bool


class GpuMemoryRecord(_Record):
    """MiB in use on the GPU with the largest increase. Models of the run and other processes count."""

    before_mib: int = Field(description="before any model of the run was loaded")
    loaded_mib: int = Field(description="when all of them were, with the values of the trial, and one request was answered")
    highest_mib: int = Field(description="highest that was read under the loads of the trial, about every two seconds")


class TrialRecord(_Record):
    """One measurement of a candidate. `origin` is its reason: prior knowledge, the optimiser, or a repetition."""

    number: int
    origin: Origin
    values: Values
    rate: float = Field(description="highest requests/s at which the SLO held; 0 = none")
    lone_p95_ms: float
    loads: list[LoadRecord]
    gpu_memory: GpuMemoryRecord | None = Field(default=None, description="none where the server has no GPU to read")


class WinnerRecord(_Record):
    """The chosen values. `noise`: the share within which configurations count as equal; the winner is the cheapest of
    them."""

    values: Values
    rate: float
    noise: float
    requests: int | None = Field(default=None, description="of the load that held at this rate; none in older reports")
    low_rate: float | None = Field(
        default=None,
        description="requests/s that held as well, at which stalls of the queue make the largest share of requests late; "
        "none where they cannot break the SLO, and in older reports",
    )


class Evidence(_Record):
    """A tuning run."""

    kind: Literal["modelctl tune"] = "modelctl tune"
    model: str
    version: int
    load: str = Field(default=REQUESTS, description="what the load was made of, and what of it was judged")
    asked: str | None = Field(default=None, description="the model that was asked, where this one is a part of it")
    beside: Mapping[str, Values] = Field(default_factory=dict, description="values of the other parts meanwhile")
    slo_p95_ms: float
    slo_p99_ms: float | None = None
    started: datetime
    finished: datetime
    seed: int
    budget_seconds: float
    machine: Machine
    versions: Versions
    trials: list[TrialRecord]
    winner: WinnerRecord

    @property
    def file_name(self) -> str:
        """Return <model>-<date>-<8 hex digits of a hash of the content>.json."""
        digest = hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:8]
        return f"{self.model}-{self.started:%Y-%m-%d}-{digest}.json"


def trial_record(trial: Trial) -> TrialRecord:
    return TrialRecord(
        number=trial.number,
        origin=trial.origin,
        values=_values(trial),
        rate=round(trial.rate, 3),
        lone_p95_ms=round(trial.lone_p95_ms, 3),
        loads=[load_record(probe) for probe in trial.probes],
        gpu_memory=None if trial.gpu_memory is None else GpuMemoryRecord(**asdict(trial.gpu_memory)),
    )


def load_record(probe: Probe) -> LoadRecord:
    figures = {name: value for name, value in asdict(probe.summary).items() if name in LoadRecord.model_fields}
    return LoadRecord(rate=round(probe.rate, 3), seed=probe.seed, held=probe.held, **figures)


def winner_record(winner: Winner) -> WinnerRecord:
    return WinnerRecord(
        values=_values(winner),
        rate=round(winner.rate, 3),
        noise=round(winner.noise, 4),
        requests=winner.requests,
        low_rate=None if winner.low_rate is None else round(winner.low_rate, 3),
    )


def machine(load_before: float, server_on_loopback: bool) -> Machine:
    """Return this machine; `load_before` is the `load_average` before the first measurement."""
    return Machine(
        system=f"{platform.system()} {platform.machine()}",
        cpu=_cpu(),
        cpus=_cpus(),
        load_before=load_before,
        load_after=load_average(),
        server_on_loopback=server_on_loopback,
    )


def load_average() -> float:
    """Return the number of runnable processes on this machine, averaged over the last minute."""
    return round(os.getloadavg()[0], 2)


def most_load() -> float:
    """Return the maximum load average for valid measurements on this machine."""
    return MOST_BUSY * _cpus()


def _cpus() -> int:
    return len(os.sched_getaffinity(0))


def versions(server: str) -> Versions:
    packages = {name: importlib.metadata.version(name) for name in CLIENT_PACKAGES}
    return Versions(server=server, python=platform.python_version(), packages=packages, revision=revision())


def revision() -> str | None:
    """Return the commit of the current directory's checkout, with "-dirty" if files differ from it. None without git."""
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--dirty", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip()


def sequences(pace: Pace) -> str:
    """Return the description of a load of sequences."""
    return f"sequences of {pace.requests} requests, one each {1000 * pace.gap_seconds:g} ms"


def _values(measured: Trial | Winner) -> Values:
    return values_of(measured.candidate)


def values_of(candidate: Candidate) -> Values:
    """Return a candidate under the stack's key names."""
    return Values(
        maxBatchSize=candidate.max_batch_size,
        maxQueueDelayUs=candidate.max_queue_delay_us,
        instances=candidate.instances,
    )


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"
