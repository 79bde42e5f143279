"""Compare tuned batching with no batching, Triton's own defaults and the settings of public articles.

    python benchmarks/batching.py

The program starts a real Triton (`python -m twin triton`) and tunes each sample model with `modelctl tune`. Then each
configuration climbs a ladder of rates: every round takes the configurations in a random order, and all get the same
arrivals. benchmarks/RESULTS.md has the results.

Fixed before the first run; record each change in benchmarks/README.md:

* metric: the highest rate of LADDER up to which a configuration holds the SLO at every rate. A rate holds if the p95 of one
  of two loads is within the SLO; a failed or unanswered request counts as infinitely slow. A load has at least FEWEST
  requests on average;
* comparison: in each round the tuned rate over the other's; their geometric mean over the rounds with a 95 % interval;
* SLO_P95_MS, LADDER and the configurations of `_variants`.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from datetime import UTC, datetime
from math import exp, log
from pathlib import Path
from typing import Annotated

import typer
from tritonclient.grpc.model_config_pb2 import ModelConfig

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))  # run as a program, from the checkout

from benchmarks.measurement import RESULTS, Conditions, Record, conditions, interval, write  # noqa: E402
from benchmarks.standalone_server import triton  # noqa: E402
from modelctl.loadgen.requests import request_of  # noqa: E402
from modelctl.repository.load import load  # noqa: E402
from modelctl.tune import evidence as record  # noqa: E402
from modelctl.tune.candidate import Candidate, configured  # noqa: E402
from modelctl.tune.evidence import Evidence, LoadRecord, Machine, Values, Versions  # noqa: E402
from modelctl.tune.served_model import ServedModel  # noqa: E402
from modelctl.tune.server import connect  # noqa: E402

MODELS = REPOSITORY / "benchmarks" / "models"

SLO_P95_MS = {"projection": 70.0, "nearest": 70.0, "recurrent": 90.0}
LADDER = tuple(round(8 * 1.2**step, 1) for step in range(30))
"""Requests/s."""
FEWEST = 60
"""Minimum requests of a load; its p95 allows three late ones. At a low rate, a load runs longer than --seconds for that."""
ARTICLES_PREFERRED, ARTICLES_BATCH = (8, 16, 32), 32
ARTICLES_DELAYS_US = (500, 1_000, 5_000, 10_000, 100_000)
"""The articles' `max_queue_delay_microseconds`, each with their preferred batch sizes.

See docs/facts/triton-configuration.md#queue-delay.
"""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
TUNED = "tuned"


class Climb(Record):
    """One climb of the ladder; `rate` is the last rate that held, 0 if the first did not."""

    round: int
    rate: float


class Variant(Record):
    """A configuration. `times`: the tuned rate divided by its rate, with the interval; None for tuned itself, and if a climb
    held no rate.
    """

    name: str
    config: str
    climbs: list[Climb]
    times: tuple[float, float, float] | None


class Comparison(Record):
    """All configurations of one model; `evidence` is the tuning's record."""

    model: str
    slo_p95_ms: float
    tuned: Values
    evidence: str
    variants: list[Variant]


class Report(Record):
    """The whole run."""

    kind: str = "batching"
    started: datetime
    finished: datetime
    rounds: int
    seconds: float
    seed: int
    conditions: Conditions
    machine: Machine
    versions: Versions
    comparisons: list[Comparison]


def main(
    rounds: Annotated[int, typer.Option(min=2, max=10, help="Climbs of every configuration.")] = 5,
    seconds: Annotated[float, typer.Option(min=1, help="Length of a load, or more.")] = 2,
    tune_seconds: Annotated[float, typer.Option(min=20, help="Budget of each tuning.")] = 180,
    seed: Annotated[int, typer.Option(help="Of arrivals and orders.")] = 1,
    results: Annotated[Path, typer.Option(help="Directory for the results.")] = RESULTS,
    model: Annotated[list[str] | None, typer.Option(help="Only this model; may be given again.")] = None,
    busy: Annotated[bool, typer.Option("--busy", help="Measure on a busy machine too; the record says so.")] = False,
) -> None:
    """Measure the rate up to which each configuration holds the SLO."""
    started, made = datetime.now(UTC), conditions(allow_busy=busy)
    names = model or list(SLO_P95_MS)
    with triton(MODELS, ONE_THREAD) as (address, _, _):
        found = {name: _tune(name, address, tune_seconds, seed, results) for name in names}
        comparisons = [_compare(name, *found[name], address, rounds, seconds, seed) for name in names]
        with connect(address, names[0], None) as server:
            version = server.version
    report = Report(
        started=started,
        finished=datetime.now(UTC),
        rounds=rounds,
        seconds=seconds,
        seed=seed,
        conditions=made,
        machine=record.machine(made.load_before, server_on_loopback=True),
        versions=record.versions(version),
        comparisons=comparisons,
    )
    typer.echo(f"written: {write(report, 'batching', started, results)}")


def _tune(name: str, address: str, budget: float, seed: int, results: Path) -> tuple[Evidence, str]:
    """Tune with the users' command; return the evidence and its file name."""
    typer.echo(f"tuning {name} for {budget:.0f} s")
    options: dict[str, object] = {
        "slo-p95-ms": SLO_P95_MS[name],
        "budget-seconds": budget,
        "max-instances": os.cpu_count(),
        "seed": seed,
    }
    options |= {"models": MODELS, "server": address, "results": results}
    command = [sys.executable, "-m", "modelctl", "tune", name, *(f"--{key}={value}" for key, value in options.items())]
    done = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, timeout=budget * 2 + 120, check=False)
    typer.echo(done.stdout)
    file = re.search(r"^evidence: (\S+)", done.stdout, re.MULTILINE)
    if done.returncode or file is None:
        raise SystemExit(f"{name} could not be tuned")
    return Evidence.model_validate_json((REPOSITORY / file[1]).read_text(encoding="utf-8")), Path(file[1]).name


def _variants(base: ModelConfig, tuned: Values) -> dict[str, ModelConfig]:
    """Return all variants with the tuned number of instances, so only batching differs; Triton's defaults also with one.

    Only the tuned variant bounds its queue, and has the stalls of a bounded queue
    (docs/serving.md#known-limits-of-the-server).
    """
    defaults = configured(base, Candidate(base.max_batch_size, 0, 1))
    defaults.dynamic_batching.Clear()
    defaults.dynamic_batching.SetInParent()  # `dynamic_batching { }`
    more = ModelConfig()
    more.CopyFrom(defaults)
    more.instance_group[0].count = tuned.instances
    variants = {
        TUNED: configured(base, Candidate(tuned.maxBatchSize, tuned.maxQueueDelayUs, tuned.instances)),
        "no batching": configured(base, Candidate(1, 0, tuned.instances)),
        "Triton's defaults": defaults,
        "Triton's defaults, tuned instances": more,
    }
    for delay in ARTICLES_DELAYS_US:
        config = configured(base, Candidate(ARTICLES_BATCH, delay, tuned.instances))
        config.dynamic_batching.preferred_batch_size.extend(ARTICLES_PREFERRED)
        config.dynamic_batching.ClearField("default_queue_policy")
        variants[f"articles, {delay} µs"] = config
    return variants


def _compare(name: str, evidence: Evidence, file: str, address: str, rounds: int, seconds: float, seed: int) -> Comparison:
    model = {found.name: found for found in load(MODELS)}[name]
    model.config.name = name
    slo, tuned = SLO_P95_MS[name], evidence.winner.values
    variants = _variants(model.config, tuned)
    climbs: dict[str, list[Climb]] = {variant: [] for variant in variants}
    order = random.Random(seed)  # noqa: S311 - the order of measurements, not a secret
    with (
        connect(address, name, None) as server,
        ServedModel(server, lambda _: model.config, request_of(model, seed), slo) as subject,
    ):
        for turn in range(rounds):
            for variant in order.sample(sorted(variants), k=len(variants)):
                subject.load(variants[variant])
                climbs[variant].append(_climb(subject, turn, seconds, seed))
                typer.echo(f"{name}: round {turn + 1} of {rounds}, {variant} up to {climbs[variant][-1].rate:g} requests/s")
    rates = {variant: [climb.rate for climb in found] for variant, found in climbs.items()}
    return Comparison(
        model=name,
        slo_p95_ms=slo,
        tuned=tuned,
        evidence=file,
        variants=[
            Variant(
                name=variant,
                config=_said(variants[variant]),
                climbs=climbs[variant],
                times=None if variant == TUNED else times(rates[TUNED], rates[variant]),
            )
            for variant in variants
        ],
    )


def _climb(subject: ServedModel, turn: int, seconds: float, seed: int) -> Climb:
    """Climb the ladder until two consecutive loads at one rate break the SLO."""
    loads: list[LoadRecord] = []
    reached = 0.0
    for step, rate in enumerate(LADDER):
        for again in range(2):
            length = max(seconds, FEWEST / rate)
            loads.append(record.load_record(subject.probe(rate, length, seed + 1000 * turn + 10 * step + again)))
            if loads[-1].due != loads[-1].ok + sum(loads[-1].errors.values()):
                raise AssertionError(f"a request without an outcome at {rate} requests/s")
            if loads[-1].held:
                reached = rate
                break
        else:
            break
    return Climb(round=turn, rate=reached)


def times(tuned: list[float], other: list[float]) -> tuple[float, float, float] | None:
    """Return the geometric mean of the rounds' ratios with its 95 % interval; None if a climb held no rate."""
    if not all(tuned) or not all(other):
        return None
    middle, low, high = interval([log(mine / theirs) for mine, theirs in zip(tuned, other, strict=True)])
    return round(exp(middle), 2), round(exp(low), 2), round(exp(high), 2)


def _said(config: ModelConfig) -> str:
    batching = config.dynamic_batching
    return (
        f"max_batch_size {config.max_batch_size}, preferred_batch_size {list(batching.preferred_batch_size)}, "
        f"max_queue_delay {batching.max_queue_delay_microseconds} µs, instances {config.instance_group[0].count}"
    )


if __name__ == "__main__":
    typer.run(main)
