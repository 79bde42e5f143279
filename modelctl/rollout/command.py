"""`modelctl rollout` and `modelctl parity`.

Exit codes beyond those of `modelctl.command_line`: 3 when a rollout was undone because its canary got no traffic to judge
by.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from prometheus_client import CollectorRegistry, start_http_server

from modelctl.command_line import Bucket, Endpoint, Json, fail, failures, print_json, stderr, stdout, table
from modelctl.rollout import parity as fleet_parity
from modelctl.rollout import pod_network
from modelctl.rollout.controller import Controller, Outcome, Result, Wanted
from modelctl.rollout.exporter import ParityCollector
from modelctl.rollout.fleet import Fleet, FleetError
from modelctl.rollout.lease import Lease, LockTaken
from modelctl.rollout.limits import Limits
from modelctl.rollout.plan import Refused
from modelctl.rollout.pod_client import PodProblem
from modelctl.rollout.pod_network import PodNetwork
from modelctl.rollout.pods import StillAsked
from modelctl.store.bucket import open_store
from modelctl.store.live import LiveRepository
from spec.names import TRITON_NAMESPACE
from spec.settings import SettingsError, load_stack_file

NO_TRAFFIC = 3
_DEFAULTS = Limits()

Namespace = Annotated[str, typer.Option(help="Namespace of Triton.")]
Translation = Annotated[
    str | None,
    typer.Option(
        "--pod-network",
        metavar="INSIDE=HERE",
        envvar=pod_network.VARIABLE,
        help="Networks of equal size: pods of the first are reached in the second (1:1 NAT), like "
        "10.40.0.0/16=172.16.0.0/16.",
    ),
]


def rollout(
    bucket: Bucket,
    stack: Annotated[str, typer.Option(help="Stack whose configs of the release are served.")],
    release: Annotated[str | None, typer.Argument(metavar="RELEASE", help="Id of a release, 12 hex digits.")] = None,
    back: Annotated[
        bool, typer.Option("--back", help="Undo the unfinished rollout, or return to the release before the last one.")
    ] = False,
    canary: Annotated[
        str, typer.Option(metavar="STEPS", help="Shares of the requests, each judged by the SLO, like 5%,25%,100%.")
    ] = "100%",
    canary_requests: Annotated[
        int, typer.Option(min=1, help="Requests per model that a step is judged by.")
    ] = _DEFAULTS.canary_requests,
    canary_seconds: Annotated[float, typer.Option(min=1, help="How long a step waits for them.")] = _DEFAULTS.canary,
    load_seconds: Annotated[
        float, typer.Option(min=1, help="How long one model may load on one pod, with download and warm-up.")
    ] = _DEFAULTS.load,
    namespace: Namespace = TRITON_NAMESPACE,
    stacks: Annotated[Path, typer.Option(help="Directory of the stack files.")] = Path("stacks"),
    endpoint_url: Endpoint = None,
    translation: Translation = None,
) -> None:
    """Change models in place, on running pods in explicit mode, without a lost request.

    Run again after whatever interrupted it, it goes on where it was.
    """
    with failures(), _rollout_failures("; run the same command again, it goes on"):
        if (release is None) != back:
            fail("name either a release or --back", 2)
        steps = _steps(canary)
        limits = replace(_DEFAULTS, canary=canary_seconds, canary_requests=canary_requests, load=load_seconds)
        wanted = Wanted(stack=stack, canary=steps, slo_p95_ms=_slos(stacks / f"Pulumi.{stack}.yaml"))
        store = open_store(bucket, endpoint_url)
        fleet = _fleet(namespace, translation)
        tell = _tell()
        controller = Controller(store, fleet, wanted, limits=limits, tell=tell)
        with Lease(LiveRepository(store), tell=tell) as lease:
            result = controller.back(lease) if release is None else controller.rollout(release, lease)
    _report(result, asked_to_undo=back)


def parity(
    namespace: Namespace = TRITON_NAMESPACE,
    serve: Annotated[
        str | None, typer.Option(metavar="ADDRESS:PORT", help="Serve it as Prometheus metrics until interrupted.")
    ] = None,
    translation: Translation = None,
    as_json: Json = False,
) -> None:
    """Compare what the pods serve: each model's versions, and the hash of its config. Exit code 1 when they differ."""
    with failures(), _rollout_failures():
        address = _address(serve) if serve is not None else None
        fleet = _fleet(namespace, translation)
        if address is not None:
            _serve(ParityCollector(fleet, namespace), *address)
            return
        states = fleet_parity.states(fleet)
        differences = fleet_parity.differences(states)
        if as_json:
            pods = {s.pod: {"problem": s.problem, "models": {m.model: m.hashes for m in s.models}} for s in states}
            print_json({"pods": pods, "differences": differences})
        else:
            _print(states)
            for sentence in differences:
                typer.echo(sentence)
            if not differences:
                typer.echo(f"{len(states)} pods serve the same" if states else f"no pods in namespace {namespace}")
        if differences:
            raise typer.Exit(1)


def _print(states: list[fleet_parity.PodState]) -> None:
    rows = table("pod", "model", "versions", "config")
    for state in states:
        if state.problem is not None:
            rows.add_row(state.pod, "?", "?", "?")
        for served in state.models:
            hashes = ", ".join(sorted(set(served.hashes.values())))
            rows.add_row(state.pod, served.model, ", ".join(map(str, served.versions)), hashes)
    stdout().print(rows)


def _address(text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdecimal():
        fail(f"--serve {text!r} is no address; write ADDRESS:PORT, like 0.0.0.0:9108", 2)
    return host.strip("[]"), int(port)


def _serve(collector: ParityCollector, host: str, port: int) -> None:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    server, _ = start_http_server(port, addr=host, registry=registry)
    typer.echo(f"metrics at http://{host}:{server.server_port}/metrics", err=True)
    try:
        threading.Event().wait()
    finally:
        server.shutdown()


def _steps(text: str) -> tuple[int, ...]:
    """The percentages below 100. Ends the command when the text has none that make sense."""
    words = [word.strip().removesuffix("%") for word in text.split(",")]
    steps = [int(word) for word in words if word.isdecimal()]
    if len(steps) != len(words) or steps != sorted(set(steps)) or steps[0] < 1 or steps[-1] != 100:
        fail(f"--canary {text!r}: write ascending percentages that end with 100%, like 5%,25%,100%", 2)
    return tuple(steps[:-1])


def _slos(file: Path) -> dict[str, float]:
    serving = load_stack_file(file).models.serving
    return {model: float(wants.slo_p95_ms) for model, wants in serving.items()}


def _fleet(namespace: str, translation: str | None) -> Fleet:
    from modelctl.rollout.kubernetes_fleet import KubernetesFleet

    return KubernetesFleet(namespace, _network(translation))


def _network(text: str | None) -> PodNetwork | None:
    if not text:
        return None
    try:
        return PodNetwork.parse(text)
    except ValueError as error:
        fail(f"--pod-network {error}", 2)


def _tell() -> Callable[[str], None]:
    console = stderr()
    return lambda line: console.print(line, markup=False, soft_wrap=True)


def _report(result: Result, *, asked_to_undo: bool) -> None:
    versions = ", ".join(f"{change.model} version {change.new}" for change in result.changes)
    if result.outcome is Outcome.DONE:
        typer.echo(f"{result.release} serves: {versions or 'nothing changed'}")
    elif result.outcome is Outcome.SEEDED:
        typer.echo(f"{result.release} fills live/: {versions}; pods that start from now on serve it")
    elif result.outcome is Outcome.NOTHING_TO_DO:
        typer.echo(f"{result.release} serves already")
    elif asked_to_undo and result.outcome is Outcome.UNDONE:
        typer.echo(f"undone, release {result.release} serves as before")
    else:
        fail(
            f"undone, release {result.release} serves as before: {result.reason}",
            NO_TRAFFIC if result.outcome is Outcome.NO_TRAFFIC else 1,
        )


@contextmanager
def _rollout_failures(advice: str = "") -> Iterator[None]:
    """The failures of these commands, beside those that all share; `advice` follows those that pass by."""
    try:
        yield
    except Refused as refused:
        for reason in refused.reasons:
            typer.echo(reason, err=True)
        count = len(refused.reasons)
        fail(f"not rolled out: {count} reason{'s' if count > 1 else ''}", 1)
    except SettingsError as failure:
        fail(str(failure), 1)
    except LockTaken as taken:
        fail(str(taken), 2)
    except (FleetError, PodProblem, StillAsked) as failure:
        fail(f"{failure}{advice}", 2)
