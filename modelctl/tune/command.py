"""Run `modelctl tune`."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from tritonclient.grpc.model_config_pb2 import ModelConfig

from console.port_forward import PortForwards
from console.program import Interrupted
from console.terminal import output, progress
from modelctl import cluster
from modelctl.cluster.admin_key import admin_key
from modelctl.loadgen import Pace
from modelctl.loadgen.requests import request_of
from modelctl.repository import backends
from modelctl.repository.load import load
from modelctl.repository.model import Model
from modelctl.repository.problems import ValidationFailed
from modelctl.tune import evidence as record
from modelctl.tune import pipeline, stack_file
from modelctl.tune.candidate import Candidate, Space, configured
from modelctl.tune.errors import TuneError
from modelctl.tune.goal import Goal
from modelctl.tune.gpu_memory import GpuMemory, watched
from modelctl.tune.pipeline import Found, Part
from modelctl.tune.plot import plot
from modelctl.tune.report import busy_in_words, memory_in_words, table_of, watch_on
from modelctl.tune.served_model import ServedModel
from modelctl.tune.server import TuningServer, connect
from modelctl.tune.study import Search, Winner, choose, in_short
from modelctl.tune.workload import Kind, requests, sequences, streams
from spec.files import rewrite
from spec.names import TRITON_GRPC_PORT, TRITON_METRICS_PORT


@dataclass(frozen=True)
class Server:
    """A dedicated Triton for tuning: HOST:PORT of its gRPC, and the key if it restricts model control.

    `metrics`: HOST:PORT of its metrics, if this is not the usual port of the same host.
    """

    address: str
    admin_key: str | None
    metrics: str | None = None

    @property
    def metrics_address(self) -> str:
        """Return HOST:PORT of its metrics."""
        return self.metrics or f"{self.address.rpartition(':')[0]}:{TRITON_METRICS_PORT}"


@dataclass(frozen=True)
class InCluster:
    """A dedicated Triton in a pod. Its key is the pod's UID, as the chart sets it up."""

    pod: str
    namespace: str


@dataclass(frozen=True)
class _Run:
    """The inputs of a tuning run, which stay the same while it lasts."""

    asked: Model
    models: tuple[Model, ...]
    parts: tuple[Part, ...]
    kind: Kind
    load: str
    request: Path | None
    goal: Goal
    started: datetime
    load_before: float
    gpu_memory_mib: Mapping[str, int]
    local: bool


def tune(
    name: str,
    models: Path,
    goal: Goal,
    max_instances: int,
    place: Server | InCluster,
    stack: Path | None,
    results: Path,
    pace: Pace | None = None,
    request: Path | None = None,
) -> None:
    """Measure candidates, write the evidence into `results` and the values into the stack file. Raises Failure.

    `pace` is the pace of the sequences of a model that keeps state. `request` is a file with the inputs to send. For a
    pipeline, every part is searched, within the SLO of the whole, with `goal.budget_seconds` each.
    """
    if goal.slo_p99_ms is not None and goal.slo_p99_ms < goal.slo_p95_ms:
        raise TuneError(
            f"--slo-p99-ms {goal.slo_p99_ms:g} is less than --slo-p95-ms {goal.slo_p95_ms:g}; "
            f"give {goal.slo_p95_ms:g} or more"
        )
    loaded = _load(models, name)
    of_run = pipeline.models_of(loaded, name)
    asked = loaded[name]
    pipeline.refuse_parts(asked, of_run)
    kind, load_text = _kind(asked, of_run, pace)
    goal = replace(goal, low_rates=pace is None)
    if stack is not None:
        stack_file.check_slo(stack, name, goal.slo_p95_ms, goal.slo_p99_ms)
    parts = tuple(
        Part(model, _making(model, stack), Space.of(model.config, max_instances))
        for model in of_run
        if not backends.is_ensemble(model.config)
    )
    memory_mib = {} if stack is None else stack_file.gpu_memory_mib(stack, [part.model.name for part in parts])
    started, load_before = datetime.now(UTC), record.load_average()
    run = _Run(
        asked, tuple(of_run), parts, kind, load_text, request, goal, started, load_before, memory_mib, _is_local(place)
    )
    found: dict[str, Found] = {}
    with (
        _reached(place) as server,
        connect(server.address, name, server.admin_key, [model.name for model in of_run]) as triton,
        watched(server.metrics_address, partial(progress().print, markup=False, soft_wrap=True)) as gpu_memory,
    ):
        _search(run, triton, gpu_memory, found)
        evidence = [_evidence(run, triton, one) for one in found.values()]
    files = {one.model: _write(one, results) for one in evidence}
    for one in found.values():
        _tell(run, one, files[one.part.model.name])
    _tell_memory(run, list(found.values())[-1], stack)
    if run.local and run.load_before > record.most_load():
        print(busy_in_words(run.load_before, record.most_load()))
    if stack is not None:
        _into_stack(run, stack, {part: one.winner.candidate for part, one in found.items()}, files, loaded)
        print(f"make a release with these values: python3 -m modelctl release {models} --bucket BUCKET --pin {stack}")


def _kind(asked: Model, models: Sequence[Model], pace: Pace | None) -> tuple[Kind, str]:
    """Return the kind of load that fits the model, and its description."""
    steps = models if backends.is_ensemble(asked.config) else [asked]
    streamed = any(model.decoupled for model in steps)
    if asked.config.HasField("sequence_batching"):
        if streamed:
            raise TuneError(f"{asked.name} is decoupled and keeps sequences; tune judges one or the other")
        if pace is None:
            raise TuneError(
                f"{asked.name} keeps sequences, and how many of them are open follows from how its clients send: give "
                "--sequence-requests, the requests of one sequence, and --sequence-gap-ms, the time between two of them"
            )
        return sequences(pace), record.sequences(pace)
    if pace is not None:
        raise TuneError(f"{asked.name} keeps no sequences; leave --sequence-requests and --sequence-gap-ms out")
    return (streams, record.STREAMS) if streamed else (requests, record.REQUESTS)


def _making(model: Model, stack: Path | None) -> Callable[[Candidate], ModelConfig]:
    """Return the function that makes a candidate's config. With a stack it is a release's config, else it comes only from
    config.pbtxt."""
    return partial(configured, model.config) if stack is None else stack_file.wanted(stack, model)


def _load(models: Path, name: str) -> dict[str, Model]:
    try:
        loaded = {model.name: model for model in load(models)}
    except ValidationFailed as failure:
        raise TuneError(f"{models} cannot be served:\n" + "\n".join(map(str, failure.problems))) from None
    if name not in loaded:
        raise TuneError(f"{models} has no model {name}; it has {', '.join(loaded)}")
    for model in loaded.values():
        model.config.name = model.name
    return loaded


def _search(run: _Run, triton: TuningServer, gpu_memory: GpuMemory | None, found: dict[str, Found]) -> None:
    """Search every part; `found` has the last search of each, also after an interruption."""
    inputs = request_of(run.asked, run.goal.seed, run.request)
    for config in pipeline.ensembles_of(run.models, 1):  # and their steps
        triton.load(config)
    if len(run.models) > 1:
        # Load called models before their callers, so a warm-up that calls them succeeds.
        for part in reversed(run.parts):
            triton.load(part.configured(part.space.first))
    with ExitStack() as stack:
        watch = stack.enter_context(watch_on(progress(), run.goal.budget_seconds))
        current: list[Search] = []

        def served(part: Part) -> ServedModel:
            slos = (run.goal.slo_p95_ms, run.goal.slo_p99_ms)
            return ServedModel(triton, part.configured, inputs, *slos, kind=run.kind, gpu_memory=gpu_memory)

        def search_one(part: Part) -> tuple[Search, Winner]:
            if len(run.parts) > 1:
                progress().print(f"{part.model.name}, for {run.asked.name}:", markup=False)
            with served(part) as subject:
                search = Search(subject, part.space, run.goal, watch)
                current[:] = [search]
                return search, search.run()

        def use(part: Part, candidate: Candidate) -> None:
            triton.load(part.configured(candidate))

        try:
            pipeline.search(run.parts, search_one, use, lambda one: found.update({one.part.model.name: one}))
        except KeyboardInterrupt:
            stack.close()
            raise Interrupted(_best_so_far(current)) from None


def _best_so_far(searches: Sequence[Search]) -> str:
    """Print the measurements; return the message for the user who interrupted them."""
    trials = [trial for search in searches for trial in search.trials]
    best = choose(trials)
    if best is None:
        return "interrupted before anything was measured; nothing was written"
    output().print(table_of(trials))
    return f"interrupted; nothing was written; best so far: {best.candidate}: {in_short(best.rate)} requests/s"


def _tell(run: _Run, found: Found, file: Path) -> None:
    goal, winner = run.goal, found.winner
    output().print(table_of(found.search.trials))
    part = f"{found.part.model.name}: " if len(run.parts) > 1 else ""
    low = f", and so do {in_short(winner.low_rate)}" if winner.low_rate is not None else ""
    print(f"{part}{winner.candidate}: {in_short(winner.rate)} requests/s hold {goal}{low} (noise {winner.noise:.0%})")
    print(
        f"judged by {winner.requests} requests: {goal.within_at_least(winner.requests):.1%} or more of them are within "
        f"{goal.objective_ms:g} ms in the long run (95 % confidence)"
    )
    print(f"evidence: {file} and {file.with_suffix('.svg').name}")


def _tell_memory(run: _Run, last: Found, stack: Path | None) -> None:
    """Print the GPU memory of all models with the chosen values. Also print whether the stack plans too little."""
    chosen = {last.part.model.name: last.winner.candidate, **last.beside}
    of_chosen = [
        trial.gpu_memory for trial in last.search.trials if trial.candidate == last.winner.candidate and trial.gpu_memory
    ]
    if not of_chosen:
        return
    most = max(of_chosen, key=lambda use: use.taken_mib)
    instances = {name: candidate.instances for name, candidate in chosen.items() if name in run.gpu_memory_mib}
    print(memory_in_words(most, instances, run.gpu_memory_mib, stack))


def _into_stack(
    run: _Run, stack: Path, chosen: Mapping[str, Candidate], files: Mapping[str, Path], loaded: Mapping[str, Model]
) -> None:
    for name, candidate in chosen.items():
        for change in stack_file.write(stack, name, candidate, files[name].as_posix()):
            print(f"{stack}: {change}")
    for model in run.models:
        if backends.is_ensemble(model.config):
            limit = pipeline.batch_limit(model, loaded, chosen)
            if limit < model.config.max_batch_size:
                for change in stack_file.write_batch(stack, model.name, limit):
                    print(f"{stack}: {change}")


def _evidence(run: _Run, triton: TuningServer, found: Found) -> record.Evidence:
    model = found.part.model
    return record.Evidence(
        model=model.name,
        version=model.version,
        load=run.load,
        asked=run.asked.name if model is not run.asked else None,
        beside={name: record.values_of(candidate) for name, candidate in found.beside.items()},
        slo_p95_ms=run.goal.slo_p95_ms,
        slo_p99_ms=run.goal.slo_p99_ms,
        started=run.started,
        finished=datetime.now(UTC),
        seed=run.goal.seed,
        budget_seconds=run.goal.budget_seconds,
        machine=record.machine(run.load_before, run.local),
        versions=record.versions(triton.version),
        trials=[record.trial_record(trial) for trial in found.search.trials],
        winner=record.winner_record(found.winner),
    )


def _write(found: record.Evidence, results: Path) -> Path:
    """Write the plot before the evidence and return the evidence file. So existing evidence is always complete."""
    file = results / found.file_name
    rewrite(file.with_suffix(".svg"), plot(found).encode())
    rewrite(file, f"{found.model_dump_json()}\n".encode())
    return file


@contextmanager
def _reached(place: Server | InCluster) -> Iterator[Server]:
    """Yield the address at which the server is reachable from here. Raises NoCluster and TuneError.

    If a forward is lost, raises TuneError, because the failed requests are no evidence against the candidate.
    """
    if isinstance(place, Server):
        yield place
        return
    api = cluster.connect()
    forwards = PortForwards(api, place.namespace)
    lost: list[Exception] = []
    with (
        forwards.listening(place.pod, TRITON_GRPC_PORT, lost.append) as grpc,
        forwards.listening(place.pod, TRITON_METRICS_PORT) as metrics,
    ):
        try:
            yield Server(grpc, admin_key(api.configuration, place.namespace, place.pod), metrics)
        except TuneError:
            if not lost:
                raise
    if lost:
        raise TuneError(f"{lost[0]}; the measurements are not usable, and no file was written; run the command again")


def _is_local(place: Server | InCluster) -> bool:
    """Return whether the server shares this machine's CPUs."""
    if isinstance(place, InCluster):
        return False
    host = place.address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
