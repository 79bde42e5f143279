"""`modelctl tune`."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from tritonclient.grpc.model_config_pb2 import ModelConfig

from modelctl.command_line import fail, failures, stderr, stdout
from modelctl.loadgen.requests import request_of
from modelctl.repository.load import Model, load
from modelctl.repository.problems import ValidationFailed
from modelctl.tune import evidence as record
from modelctl.tune import stack_file
from modelctl.tune.candidate import Candidate, Space, configured, refuse_untunable
from modelctl.tune.errors import TuneError
from modelctl.tune.plot import plot
from modelctl.tune.report import table_of, watch_on
from modelctl.tune.served_model import ServedModel
from modelctl.tune.server import TuningServer, connect
from modelctl.tune.study import Goal, Search, Winner, choose
from spec.files import rewrite


@dataclass(frozen=True)
class _Run:
    """What stays the same during a run."""

    model: Model
    configured: Callable[[Candidate], ModelConfig]
    goal: Goal
    max_instances: int
    started: datetime
    load_before: float


def tune(
    model: Annotated[str, typer.Argument(help="A model of MODELS_DIR.")],
    slo_p95_ms: Annotated[float, typer.Option("--slo-p95-ms", min=1, help="95 of 100 requests are answered in that time.")],
    models: Annotated[Path, typer.Option(help="The model repository, the same that the server has.")] = Path("models"),
    server: Annotated[str, typer.Option(help="HOST:PORT of a Triton's gRPC, in explicit mode and for this alone.")] = (
        "127.0.0.1:8001"
    ),
    admin_key: Annotated[
        str | None, typer.Option(envvar="TRITON_ADMIN_KEY", help="Key of a server that restricts its model control.")
    ] = None,
    budget_seconds: Annotated[float, typer.Option(min=20, help="How long to search.")] = 300,
    max_instances: Annotated[int, typer.Option(min=1, max=64, help="The most instances to try.")] = 4,
    stack: Annotated[Path | None, typer.Option(metavar="FILE", help="Stack file to write the values into.")] = None,
    results: Annotated[Path, typer.Option(help="Directory for the evidence.")] = Path("benchmarks/results"),
    seed: Annotated[int, typer.Option(help="Of the arrivals and of the search.")] = 1,
) -> None:
    """Search the batch size, delay and instances that hold the SLO at the highest rate, by measuring.

    Start a Triton for it with `python -m twin triton MODELS_DIR`, or forward the port of a pod of its own.
    """
    with failures():
        try:
            chosen = _model(models, model)
            refuse_untunable(chosen.config)
            making = _making(chosen, stack, slo_p95_ms)
            goal = Goal(slo_p95_ms, budget_seconds, seed)
            run = _Run(chosen, making, goal, max_instances, datetime.now(UTC), record.load_average())
            with connect(server, model, admin_key) as triton:
                search, winner = _search(run, triton)
                found = _evidence(run, triton, search, winner)
            file = _write(found, results)
        except TuneError as error:
            fail(str(error), 1)
        stdout().print(table_of(search.trials))
        typer.echo(
            f"{winner.candidate}: {winner.rate:.0f} requests/s hold p95 <= {slo_p95_ms:g} ms (noise {winner.noise:.0%})"
        )
        typer.echo(f"evidence: {file} and {file.with_suffix('.svg').name}")
        if stack is not None:
            for change in stack_file.write(stack, model, winner.candidate, file.as_posix()):
                typer.echo(f"{stack}: {change}")
            typer.echo(
                f"make a release with these values: python -m modelctl release {models} --bucket BUCKET --pin {stack}"
            )


def _making(model: Model, stack: Path | None, slo_p95_ms: float) -> Callable[[Candidate], ModelConfig]:
    """How the config of a candidate is made: as a release would for the stack, else from config.pbtxt alone."""
    return partial(configured, model.config) if stack is None else stack_file.wanted(stack, model, slo_p95_ms)


def _model(models: Path, name: str) -> Model:
    try:
        loaded = {model.name: model for model in load(models)}
    except ValidationFailed as failure:
        raise TuneError(f"{models} cannot be served:\n" + "\n".join(map(str, failure.problems))) from None
    if name not in loaded:
        raise TuneError(f"{models} has no model {name}; it has {', '.join(loaded)}")
    loaded[name].config.name = name
    return loaded[name]


def _search(run: _Run, triton: TuningServer) -> tuple[Search, Winner]:
    inputs = request_of(run.model, run.goal.seed)
    space = Space.of(run.model.config, run.max_instances)
    with ExitStack() as stack:
        subject = stack.enter_context(ServedModel(triton, run.configured, inputs, run.goal.slo_p95_ms))
        watch = stack.enter_context(watch_on(stderr(), run.goal.budget_seconds))
        search = Search(subject, space, run.goal, watch)
        try:
            return search, search.run()
        except KeyboardInterrupt:
            stack.close()
            _say_best_so_far(search)
            raise typer.Exit(130) from None


def _say_best_so_far(search: Search) -> None:
    best = choose(search.trials)
    if best is None:
        typer.echo("modelctl: interrupted before anything was measured; nothing was written", err=True)
        return
    stdout().print(table_of(search.trials))
    typer.echo(f"best so far: {best.candidate}: {best.rate:.0f} requests/s", err=True)
    typer.echo("modelctl: interrupted; nothing was written", err=True)


def _evidence(run: _Run, triton: TuningServer, search: Search, winner: Winner) -> record.Evidence:
    return record.Evidence(
        model=run.model.name,
        version=run.model.version,
        slo_p95_ms=run.goal.slo_p95_ms,
        started=run.started,
        finished=datetime.now(UTC),
        seed=run.goal.seed,
        budget_seconds=run.goal.budget_seconds,
        machine=record.machine(run.load_before, _on_loopback(triton.address)),
        versions=record.versions(triton.version),
        trials=[record.trial_record(trial) for trial in search.trials],
        winner=record.winner_record(winner),
    )


def _write(found: record.Evidence, results: Path) -> Path:
    """The plot first: evidence that is there is whole."""
    file = results / found.file_name
    rewrite(file.with_suffix(".svg"), plot(found).encode())
    rewrite(file, f"{found.model_dump_json(indent=1)}\n".encode())
    return file


def _on_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
