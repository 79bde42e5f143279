"""Run `modelctl tune`."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from tritonclient.grpc.model_config_pb2 import ModelConfig

from console.program import Interrupted
from console.terminal import output, progress
from modelctl.loadgen.requests import request_of
from modelctl.repository.load import load
from modelctl.repository.model import Model
from modelctl.repository.problems import ValidationFailed
from modelctl.tune import evidence as record
from modelctl.tune import stack_file
from modelctl.tune.candidate import Candidate, Space, configured, refuse_untunable
from modelctl.tune.errors import TuneError
from modelctl.tune.plot import plot
from modelctl.tune.report import table_of, watch_on
from modelctl.tune.served_model import ServedModel
from modelctl.tune.server import TuningServer, connect
from modelctl.tune.study import Goal, Search, Winner, choose, in_short
from spec.files import rewrite


@dataclass(frozen=True)
class _Run:
    """The inputs of a tuning run, which stay the same while it lasts."""

    model: Model
    configured: Callable[[Candidate], ModelConfig]
    goal: Goal
    max_instances: int
    started: datetime
    load_before: float


@dataclass(frozen=True)
class Server:
    """A Triton of its own for tuning: HOST:PORT of its gRPC, and the key when it restricts its model control."""

    address: str
    admin_key: str | None


def tune(name: str, models: Path, goal: Goal, max_instances: int, server: Server, stack: Path | None, results: Path) -> None:
    """Search by measuring, write the evidence into `results` and the values into the stack file. Raises Failure."""
    if goal.slo_p99_ms is not None and goal.slo_p99_ms < goal.slo_p95_ms:
        raise TuneError(
            f"--slo-p99-ms {goal.slo_p99_ms:g} is less than --slo-p95-ms {goal.slo_p95_ms:g}; "
            f"give {goal.slo_p95_ms:g} or more"
        )
    chosen = _model(models, name)
    refuse_untunable(chosen.config)
    making = _making(chosen, stack, goal)
    run = _Run(chosen, making, goal, max_instances, datetime.now(UTC), record.load_average())
    with connect(server.address, name, server.admin_key) as triton:
        search, winner = _search(run, triton)
        found = _evidence(run, triton, search, winner)
    file = _write(found, results)
    output().print(table_of(search.trials))
    held = f"{in_short(winner.rate)} requests/s hold {goal} (noise {winner.noise:.0%})"
    print(f"{winner.candidate}: {held}")
    print(
        f"judged by {winner.requests} requests: {goal.within_at_least(winner.requests):.1%} or more of them are within "
        f"{goal.objective_ms:g} ms in the long run (95 % confidence)"
    )
    print(f"evidence: {file} and {file.with_suffix('.svg').name}")
    if stack is not None:
        for change in stack_file.write(stack, name, winner.candidate, file.as_posix()):
            print(f"{stack}: {change}")
        print(f"make a release with these values: python3 -m modelctl release {models} --bucket BUCKET --pin {stack}")


def _making(model: Model, stack: Path | None, goal: Goal) -> Callable[[Candidate], ModelConfig]:
    """Return how the config of a candidate is made: as a release would for the stack, else from config.pbtxt alone."""
    if stack is None:
        return partial(configured, model.config)
    return stack_file.wanted(stack, model, goal.slo_p95_ms, goal.slo_p99_ms)


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
        subject = stack.enter_context(ServedModel(triton, run.configured, inputs, run.goal.slo_p95_ms, run.goal.slo_p99_ms))
        watch = stack.enter_context(watch_on(progress(), run.goal.budget_seconds))
        search = Search(subject, space, run.goal, watch)
        try:
            return search, search.run()
        except KeyboardInterrupt:
            stack.close()
            raise Interrupted(_best_so_far(search)) from None


def _best_so_far(search: Search) -> str:
    """Print what was measured; return what to tell whoever interrupted it."""
    best = choose(search.trials)
    if best is None:
        return "interrupted before anything was measured; nothing was written"
    output().print(table_of(search.trials))
    return f"interrupted; nothing was written; best so far: {best.candidate}: {in_short(best.rate)} requests/s"


def _evidence(run: _Run, triton: TuningServer, search: Search, winner: Winner) -> record.Evidence:
    return record.Evidence(
        model=run.model.name,
        version=run.model.version,
        slo_p95_ms=run.goal.slo_p95_ms,
        slo_p99_ms=run.goal.slo_p99_ms,
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
    """Write the plot before the evidence, and return the file of that: evidence that is there is whole."""
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
