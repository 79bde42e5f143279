"""Measure how models on one device slow each other down on a real Triton, compared with `twin replay`.

    python benchmarks/contention.py [--rounds 3] [--seconds 30] [--record] [--busy]

The device is one CPU core: all instances of a `tritonserver` are pinned to it, and the server and the load to another. On a
busy machine, run it as root: then the instances take precedence over other work on that core. Equal models of the Python
backend compute for EXECUTION_MS of CPU time; requests arrive at random. Rounds take the cases in a random order. Metrics,
fixed before the first run, of each case over the rounds with a 95 % interval:

* device: the share of the time in which the device executes anything, by the models' own clocks;
* load: the result of the recording rule of `spec.prometheus.gpu_load` on Triton's counters. Error: load minus device;
* busy: busy instances of all models by Triton's counters, compared with those of `twin replay` for the same rates and the
  same execution on an idle device.

Goal: the load within 0.05 of the device, and busy instances within 15 % of the replay's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median
from typing import Annotated

import httpx
import numpy as np
import typer
from tritonclient.grpc import InferInput
from tritonclient.grpc.aio import InferenceServerClient

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))  # run as a program, from the checkout

from benchmarks.local_process import descendants, name_of  # noqa: E402
from benchmarks.measurement import RESULTS, Conditions, Record, conditions, interval, write  # noqa: E402
from benchmarks.slow_pod import STUB  # noqa: E402
from benchmarks.standalone_server import triton  # noqa: E402
from modelctl.tune import evidence  # noqa: E402
from twin.replay.contention import stretches  # noqa: E402
from twin.replay.prometheus import gpu_load  # noqa: E402
from twin.replay.service import Service  # noqa: E402
from twin.replay.serving import Server  # noqa: E402

EXECUTION_MS = 30
CASES = ((2, 0.4), (2, 0.6), (2, 0.8), (6, 0.4), (6, 0.6), (6, 0.8))
"""Models on the device, and the load: executions/s times the seconds of one on the idle device."""
_ALONE = 40
_NICE = -19
_CONFIG = """backend: "python"
input [ {{ name: "IN" data_type: TYPE_FP32 dims: [ 1 ] }} ]
output [ {{ name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] }} ]
parameters [ {{ key: "log" value: {{ string_value: "{log}" }} }} ]
instance_group [ {{ kind: KIND_CPU count: 1 }} ]
"""
_MODEL = f"""import json, time
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.log = open(json.loads(args["model_config"])["parameters"]["log"]["string_value"], "a", buffering=1)

    def execute(self, requests):
        begun, ends = time.monotonic(), time.thread_time() + {EXECUTION_MS / 1000}
        while time.thread_time() < ends:
            pass
        self.log.write(f"{{begun}} {{time.monotonic()}}\\n")
        out = pb_utils.Tensor("OUT", np.zeros(1, np.float32))
        return [pb_utils.InferenceResponse([out]) for _ in requests]
"""


class Round(Record):
    """One load on one case. `alone_ms`: the median execution on an idle device just before it."""

    alone_ms: float
    executions: int
    device: float
    load: float
    busy: float
    replayed: float


class Case(Record):
    """A number of models under a load, and all their rounds."""

    models: int
    nominal: float
    rounds: tuple[Round, ...]


class Report(Record):
    """One run."""

    kind: str = "contention"
    started: datetime
    revision: str | None
    seconds: float
    conditions: Conditions
    cases: tuple[Case, ...]


def main(
    rounds: Annotated[int, typer.Option(help="of all cases")] = 3,
    seconds: Annotated[float, typer.Option(help="of a load")] = 30.0,
    busy: Annotated[bool, typer.Option("--busy", help="measure on a busy machine, and say so in the record")] = False,
    record: Annotated[bool, typer.Option("--record", help="write a record into benchmarks/results")] = False,
) -> None:
    """Print the table of docs/replay.md."""
    started, revision = datetime.now(UTC), evidence.revision()
    made = conditions(allow_busy=busy)
    found: dict[tuple[int, float], list[Round]] = {case: [] for case in CASES}
    most = max(models for models, _ in CASES)
    with tempfile.TemporaryDirectory() as folder:
        repository = Path(folder) / "models"
        for number in range(most):
            model = repository / f"burn{number}" / "1"
            model.mkdir(parents=True)
            (model / "model.py").write_text(_MODEL)
            (model.parent / "config.pbtxt").write_text(_CONFIG.format(log=_log(Path(folder), number)))
        os.sched_setaffinity(0, {0})
        with triton(repository, {}) as addresses:
            asyncio.run(_measure(Path(folder), addresses.grpc, addresses.metrics, found, rounds, seconds, most))
    cases = tuple(Case(models=models, nominal=load, rounds=tuple(of)) for (models, load), of in found.items())
    report = Report(started=started, revision=revision, seconds=seconds, conditions=made, cases=cases)
    print("\n".join(markdown(report)))
    if record:
        print(f"\nwritten: {write(report, 'contention', started, RESULTS)}")


async def _measure(
    folder: Path,
    grpc: str,
    metrics: str,
    found: dict[tuple[int, float], list[Round]],
    rounds: int,
    seconds: float,
    most: int,
) -> None:
    client = InferenceServerClient(grpc)
    try:
        for number in range(most):
            await client.load_model(f"burn{number}")
        stubs = [pid for pid in descendants(os.getpid()) if name_of(pid).startswith(STUB[:15])]
        if len(stubs) != most:
            raise SystemExit(f"error: {len(stubs)} processes {STUB} of {most} models; run it again")
        for stub in stubs:
            with contextlib.suppress(OSError):  # not root, or a kernel without autogroups
                Path(f"/proc/{stub}/autogroup").write_text(f"{_NICE}\n")
            for task in Path(f"/proc/{stub}/task").iterdir():
                os.sched_setaffinity(int(task.name), {1})
        for seed in range(rounds):
            source = random.Random(seed)  # noqa: S311 - repeatable on purpose
            for case in source.sample(CASES, len(CASES)):
                found[case].append(await _round(folder, client, metrics, *case, seconds, source))
                print(f"{case}: {found[case][-1]}", file=sys.stderr)
    finally:
        await client.close()


async def _round(
    folder: Path,
    client: InferenceServerClient,
    metrics: str,
    models: int,
    nominal: float,
    seconds: float,
    source: random.Random,
) -> Round:
    for _ in range(_ALONE):
        await _infer(client, 0)
    alone = median(ends - begun for begun, ends in _executions(folder, 1)[-_ALONE:])
    for number in range(models):
        _log(folder, number).write_text("")
    rate = nominal / alone / models
    before, begun = await _counters(metrics, models), time.monotonic()
    arrivals = []
    for number in range(models):
        at = source.expovariate(rate)
        while at < seconds:
            arrivals.append((at, number))
            at += source.expovariate(rate)
    sent = []
    for at, number in sorted(arrivals):
        await asyncio.sleep(max(0.0, begun + at - time.monotonic()))
        sent.append(asyncio.create_task(_infer(client, number)))
    await asyncio.gather(*sent)
    lasted = time.monotonic() - begun
    after = await _counters(metrics, models)
    busy = {f"burn{number}": (after[number] - before[number]) / 1e6 / lasted for number in range(models)}
    load = gpu_load(busy, dict.fromkeys(busy, 1), 1)
    assert load is not None
    return Round(
        alone_ms=1000 * alone,
        executions=len(sent),
        device=_union(_executions(folder, models)) / lasted,
        load=load,
        busy=sum(busy.values()),
        replayed=replayed(models, len(sent) / lasted, alone),
    )


def replayed(models: int, rate: float, alone_seconds: float) -> float:
    """Return the replay's busy instances for equal models that get this many requests/s together."""
    servers = [Server(Service(1, 1, alone_seconds, alone_seconds, "measured", 1), 1e9, 1e9) for _ in range(models)]
    source = np.random.default_rng(1)
    busy = []
    for second in range(1200):
        for server, stretch, arriving in zip(
            servers, stretches(servers, 1), source.poisson(rate / models, models).tolist(), strict=True
        ):
            server.second(arriving, stretch)
        if second >= 200:
            busy.append(sum(server.busy for server in servers))
    return fmean(busy)


def markdown(report: Report) -> list[str]:
    lines = [
        "| models, load sent | alone | device busy | load by the rule | load minus device | busy instances | replay |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for case in report.cases:
        of = case.rounds
        figures = (
            f"{fmean(one.alone_ms for one in of):.1f} ms",
            _shown([one.device for one in of]),
            _shown([one.load for one in of]),
            _shown([one.load - one.device for one in of]),
            _shown([one.busy for one in of]),
            _shown([one.replayed for one in of]),
        )
        lines.append(f"| {case.models}, {case.nominal:g} | {' | '.join(figures)} |")
    return lines


def _shown(values: Sequence[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:.2f}"
    mean, least, most = interval(values)
    return f"{mean:.2f} ({least:.2f} to {most:.2f})"


async def _infer(client: InferenceServerClient, number: int) -> None:
    given = InferInput("IN", [1], "FP32")
    given.set_data_from_numpy(np.zeros(1, np.float32))
    await client.infer(f"burn{number}", [given])


async def _counters(metrics: str, models: int) -> list[float]:
    async with httpx.AsyncClient(trust_env=False) as client:
        text = (await client.get(f"http://{metrics}/metrics")).text
    found = [0.0] * models
    for line in text.splitlines():
        if line.startswith("nv_inference_compute_infer_duration_us{"):
            for number in range(models):
                if f'model="burn{number}"' in line:
                    found[number] += float(line.rpartition(" ")[2])
    return found


def _log(folder: Path, number: int) -> Path:
    return folder / f"burn{number}.log"


def _executions(folder: Path, models: int) -> list[tuple[float, float]]:
    found = []
    for number in range(models):
        with contextlib.suppress(FileNotFoundError):
            for line in _log(folder, number).read_text().splitlines():
                begun, ends = map(float, line.split())
                found.append((begun, ends))
    return found


def _union(executions: list[tuple[float, float]]) -> float:
    """Return the seconds with at least one execution."""
    total, until = 0.0, 0.0
    for begun, ends in sorted(executions):
        total += max(0.0, ends - max(begun, until))
        until = max(until, ends)
    return total


if __name__ == "__main__":
    typer.run(main)
