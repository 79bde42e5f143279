"""Tuned values against no batching and against those of the public articles, in one interleaved run.

    python benchmarks/tuned_against_articles.py

starts a real Triton (`python -m twin triton`), tunes each sample model with `modelctl tune`, and then loads the three
configurations in turns: every round takes them in a random order, each rate of a ladder in a random order too, and all
three get the same arrivals. benchmarks/README.md says what came out.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import random
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel, ConfigDict
from tritonclient.grpc.model_config_pb2 import ModelConfig

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))  # run as a program, from the checkout

from modelctl.loadgen.requests import request_of  # noqa: E402
from modelctl.repository.load import load  # noqa: E402
from modelctl.tune import evidence as record  # noqa: E402
from modelctl.tune.candidate import Candidate, configured  # noqa: E402
from modelctl.tune.evidence import Evidence, LoadRecord, Machine, Values, Versions  # noqa: E402
from modelctl.tune.plot import svg  # noqa: E402
from modelctl.tune.served_model import ServedModel  # noqa: E402
from modelctl.tune.server import connect  # noqa: E402
from spec.files import rewrite  # noqa: E402

MODELS = REPOSITORY / "benchmarks" / "models"
RESULTS = REPOSITORY / "benchmarks" / "results"

SLO_P95_MS = {"projection": 70.0, "nearest": 70.0, "recurrent": 90.0}
"""Three to four times the p95 of a lone request on the machine of the results."""

ARTICLES_PREFERRED, ARTICLES_DELAY_US, ARTICLES_BATCH = (8, 16, 32), 100_000, 32
"""The values that the public articles recommend for every model.

See docs/facts/triton-configuration.md#queue-delay.
"""

STEP, STEPS = 1.3, 12
"""The ladder of rates: its top is above what tuning found, its foot below what any server without batching does."""

JUDGED_UP_TO = 4
"""Times the SLO: a load goes on until its p95 is certain to be above that, so that looser SLOs can be read off too."""

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Step(_Record):
    """A rate of the ladder with one load per round; `p95_ms` is their median, null when most had none."""

    rate: float
    p95_ms: float | None
    loads: list[LoadRecord]


class Variant(_Record):
    """`holds` gives for each SLO in ms the highest rate of the ladder up to which the median p95 is within it; 0 = none.

    Up to: at all lower rates too. A configuration that is too slow for a quiet night does not hold the SLO.
    """

    name: str
    config: str
    steps: list[Step]
    holds: dict[str, float]


class Comparison(_Record):
    """`times_no_batching` and `times_articles`: the tuned rate over theirs; null when theirs holds at no rate."""

    model: str
    slo_p95_ms: float
    tuned: Values
    evidence: str
    variants: list[Variant]
    times_no_batching: float | None
    times_articles: float | None


class Report(_Record):
    """The whole run."""

    kind: str = "tuned against articles"
    started: datetime
    finished: datetime
    rounds: int
    seconds: float
    seed: int
    machine: Machine
    versions: Versions
    comparisons: list[Comparison]


def main(
    rounds: Annotated[int, typer.Option(min=1, help="Loads of every configuration at every rate.")] = 3,
    seconds: Annotated[float, typer.Option(min=1, help="Length of a load.")] = 4,
    tune_seconds: Annotated[float, typer.Option(min=20, help="Budget of each tuning.")] = 180,
    seed: Annotated[int, typer.Option(help="Of arrivals and orders.")] = 1,
    results: Annotated[Path, typer.Option(help="Directory for the results.")] = RESULTS,
    model: Annotated[list[str] | None, typer.Option(help="Only this model; may be given again.")] = None,
) -> None:
    """Measure the highest rate at which each configuration holds the SLO."""
    started, load_before = datetime.now(UTC), record.load_average()
    names = model or list(SLO_P95_MS)
    with _triton() as address:
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
        machine=record.machine(load_before, server_on_loopback=True),
        versions=record.versions(version),
        comparisons=comparisons,
    )
    digest = hashlib.sha256(report.model_dump_json().encode()).hexdigest()[:8]
    file = results / f"tuned-against-articles-{started:%Y-%m-%d}-{digest}.json"
    rewrite(file.with_suffix(".svg"), _plot(report).encode())
    rewrite(file, f"{report.model_dump_json(indent=1)}\n".encode())
    for line in _lines(report):
        typer.echo(line)
    typer.echo(f"written: {file} and {file.with_suffix('.svg').name}")


@contextlib.contextmanager
def _triton() -> Iterator[str]:
    """A real server over the sample models whose numerical libraries use one thread; yields its gRPC address."""
    command = [sys.executable, "-m", "twin", "triton", str(MODELS)]
    with subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env={**os.environ, **ONE_THREAD},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is this program's: it still has to unload
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            said = re.match(r"gRPC (\S+),", line)
            if said is None:
                raise SystemExit(f"no server: `{' '.join(command[1:])}` said {line.strip()!r}; run it to see why")
            yield said[1]
        finally:
            process.terminate()


def _tune(name: str, address: str, budget: float, seed: int, results: Path) -> tuple[Evidence, str]:
    """Tunes with the command that people use; the evidence and the name of its file."""
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
    """All with as many instances as tuning chose: only batching differs.

    Neither no batching nor the articles bound the queue, which on server 2.51 spares them stalls (docs/serving.md).
    """
    articles = configured(base, Candidate(ARTICLES_BATCH, ARTICLES_DELAY_US, tuned.instances))
    articles.dynamic_batching.preferred_batch_size.extend(ARTICLES_PREFERRED)
    articles.dynamic_batching.ClearField("default_queue_policy")
    return {
        "tuned": configured(base, Candidate(tuned.maxBatchSize, tuned.maxQueueDelayUs, tuned.instances)),
        "no batching": configured(base, Candidate(1, 0, tuned.instances)),
        "articles": articles,
    }


def _compare(name: str, evidence: Evidence, file: str, address: str, rounds: int, seconds: float, seed: int) -> Comparison:
    model = {found.name: found for found in load(MODELS)}[name]
    model.config.name = name
    slo, tuned = SLO_P95_MS[name], evidence.winner.values
    variants = _variants(model.config, tuned)
    top = evidence.winner.rate * STEP**1.5
    rates = [round(top / STEP**step, 1) for step in reversed(range(STEPS))]
    loads: dict[tuple[str, float], list[LoadRecord]] = {(variant, rate): [] for variant in variants for rate in rates}
    order = random.Random(seed)  # noqa: S311 - the order of measurements, not a secret
    inputs = request_of(model, seed)
    with (
        connect(address, name, None) as server,
        ServedModel(server, lambda _: model.config, inputs, slo * JUDGED_UP_TO) as subject,
    ):
        for turn in range(rounds):
            for variant in order.sample(sorted(variants), k=len(variants)):
                subject.load(variants[variant])
                for rate in order.sample(rates, k=len(rates)):
                    arrivals = seed + 1000 * turn + rates.index(rate)
                    probe = subject.probe(rate, seconds, arrivals)
                    loads[variant, rate].append(record.load_record(probe))
                typer.echo(f"{name}: round {turn + 1} of {rounds}, {variant} measured")
    made = [
        _variant(variant, variants[variant], {rate: loads[variant, rate] for rate in rates}, slo) for variant in variants
    ]
    rate_of = {variant.name: variant.holds[f"{slo:g}"] for variant in made}
    return Comparison(
        model=name,
        slo_p95_ms=slo,
        tuned=tuned,
        evidence=file,
        variants=made,
        times_no_batching=_times(rate_of["tuned"], rate_of["no batching"]),
        times_articles=_times(rate_of["tuned"], rate_of["articles"]),
    )


def _variant(name: str, config: ModelConfig, loads: dict[float, list[LoadRecord]], slo: float) -> Variant:
    steps = [Step(rate=rate, p95_ms=_median([load.p95_ms for load in found]), loads=found) for rate, found in loads.items()]
    batching = config.dynamic_batching
    said = (
        f"max_batch_size {config.max_batch_size}, preferred_batch_size {list(batching.preferred_batch_size)}, "
        f"max_queue_delay {batching.max_queue_delay_microseconds} µs, instances {config.instance_group[0].count}"
    )
    limits = [slo * factor for factor in (1, 2, JUDGED_UP_TO)]
    holds = {f"{limit:g}": _highest(steps, limit) for limit in limits}
    return Variant(name=name, config=said, steps=steps, holds=holds)


def _highest(steps: list[Step], limit: float) -> float:
    held = itertools.takewhile(lambda step: step.p95_ms is not None and step.p95_ms <= limit, steps)
    return max((step.rate for step in held), default=0.0)


def _median(values: list[float | None]) -> float | None:
    """Of an even number the worse of the two in the middle; a load without a p95 counts as infinitely slow."""
    middle = statistics.median_high([float("inf") if value is None else value for value in values])
    return None if middle == float("inf") else middle


def _times(tuned: float, other: float) -> float | None:
    return round(tuned / other, 2) if other else None


def _lines(report: Report) -> Iterator[str]:
    for comparison in report.comparisons:
        rates = {variant.name: variant.holds[f"{comparison.slo_p95_ms:g}"] for variant in comparison.variants}
        against = {"no batching": comparison.times_no_batching, "articles": comparison.times_articles}
        ratios = [f"{times:g} x {name}" if times else f"{name} holds it at no rate" for name, times in against.items()]
        figures = ", ".join(f"{name} {rate:g}" for name, rate in rates.items())
        yield f"{comparison.model}, p95 <= {comparison.slo_p95_ms:g} ms: {figures} requests/s; tuned = {', '.join(ratios)}"


def _plot(report: Report) -> str:
    from matplotlib.figure import Figure

    count = len(report.comparisons)
    figure = Figure(figsize=(5 * count, 4), layout="constrained")
    for axes, comparison in zip(figure.subplots(1, count, squeeze=False)[0], report.comparisons, strict=True):
        for variant in comparison.variants:
            points = [(step.rate, step.p95_ms) for step in variant.steps if step.p95_ms is not None]
            axes.plot([rate for rate, _ in points], [p95 for _, p95 in points], "o-", markersize=4, label=variant.name)
        slo = comparison.slo_p95_ms
        axes.axhline(slo, color="black", linestyle="--", linewidth=1, label=f"SLO {slo:g} ms")
        axes.set(xscale="log", ylim=(0, slo * JUDGED_UP_TO), title=comparison.model, xlabel="requests/s")
        axes.set_ylabel("p95 from the scheduled time, ms (median of the rounds)")
        axes.legend(fontsize="small")
    return svg(figure)


if __name__ == "__main__":
    typer.run(main)
