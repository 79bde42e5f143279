"""The twin's command line. Each command is a few lines; what it does stands in the module of its name."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from console.options import StackArgument
from spec import stack_names
from twin.charts import registry
from twin.cluster.kube_errors import KubeError
from twin.commands import down as down_command
from twin.commands import preview, shell, status
from twin.commands import up as up_command
from twin.commands.inference import Answer, InferenceFailed
from twin.commands.readiness import NotServing
from twin.engine import engine, stack_files
from twin.engine.engine import Engine, EngineError
from twin.host import processes, tools
from twin.host.claim import NotATwin
from twin.host.home import REPOSITORY, TwinBusy, TwinHome
from twin.host.processes import DeadlinePassed, ProcessFailed
from twin.host.tools import ToolError
from twin.load.refused import LoadRefused
from twin.services import scratch
from twin.services.servers import PROGRAMS, NotRunning, Servers
from twin.triton import standalone, tritonserver
from twin.triton.tritonserver import TritonUnavailable

app = typer.Typer(
    help="Triton on EKS on this machine: real Pulumi, a real Kubernetes control plane, real Triton, and moto for AWS.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console(highlight=False, soft_wrap=True)
errors = Console(stderr=True, highlight=False, soft_wrap=True)


class Interrupted(RuntimeError):
    """Ctrl-C; the text says what is left, and how to go on."""


EXPECTED = (
    Interrupted,
    up_command.UpFailed,
    scratch.UnknownRevision,
    KubeError,
    EngineError,
    stack_files.StackFileUnreadable,
    InferenceFailed,
    LoadRefused,
    NotRunning,
    NotServing,
    TwinBusy,
    NotATwin,
    ProcessFailed,
    DeadlinePassed,
    ToolError,
    TritonUnavailable,
    standalone.StandaloneFailed,
)


def main() -> None:
    """Runs the command line; an expected failure is one message on standard error and code 1, or 2 for a stack name."""
    try:
        app()
    except stack_names.NoSuchStack as error:
        errors.print(f"error: {error}", style="red", markup=False)
        sys.exit(error.exit_code)
    except EXPECTED as error:
        errors.print(f"error: {error}", style="red", markup=False)
        sys.exit(1)
    except OSError as error:
        errors.print(f"error: {error.filename or 'a file'}: {error.strerror or error}", style="red", markup=False)
        sys.exit(1)


@app.command()
def up(
    autoscaling: Annotated[
        bool, typer.Option("--autoscaling", help="with KEDA, Prometheus and a slow model: pods that follow a load")
    ] = False,
) -> None:
    """Bring the `local` stack up, send one inference, and say where things are."""
    started = time.monotonic()
    home = TwinHome.from_environment()
    with _interruptible(home), home.lock("python3 -m twin up"):
        tritonserver.locate(home.cache)  # what this machine lacks is told before anything is built
        stack_files.ask_for_autoscaling(home, autoscaling)
        stack = stack_files.config(home, up_command.STACK)
        servers = Servers.start(home, _programs(home, registry.families(stack)), console)
        answer = up_command.up(home, servers, say)
    _print_answer(answer)
    _print_endpoints(servers)
    console.print(f"\nup in {time.monotonic() - started:.0f} s. How to go on:\n", markup=False)
    if autoscaling:
        console.print(
            "  python3 -m twin load --rate 30 --seconds 120         # pods that follow a load\n"
            "  python3 -m twin load --rate 10 --seconds 60 --sqs    # workers that follow a queue, from none",
            markup=False,
        )
    console.print(
        '  eval "$(python3 -m twin env)"       # pulumi, kubectl, aws and helm of this shell talk to the twin\n'
        "  kubectl get pods -A -o wide\n"
        f"  {shell.LEAVE:<35} # the shell is again what it was\n"
        "  python3 -m twin preview prod        # any environment, without credentials\n"
        "  make down                           # stop and remove all of it",
        markup=False,
    )


@app.command()
def down() -> None:
    """Stop every process of the twin and remove its directory."""
    home = TwinHome.from_environment()
    for line in down_command.down(home):
        with contextlib.suppress(OSError):  # a full disk takes no output, and has to be freed all the same
            say(line)


@app.command("load")
def run_load(
    rate: Annotated[float, typer.Option(min=0.1, max=200, help="requests/s, on average")] = 30,
    seconds: Annotated[float, typer.Option(min=1, max=3600, help="how long they are sent")] = 120,
    model: Annotated[str | None, typer.Option(help="one of the release; default: the slow one, `timed_batch`")] = None,
    sqs: Annotated[bool, typer.Option("--sqs", help="as messages in the request queue, for the workers")] = False,
    follow: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="watch the pods so long after it; default: until they rest"),
    ] = None,
) -> None:
    """Send a load to the twin, and show live what the autoscaler makes of it; Ctrl-C ends it."""
    from twin.load.command import Wanted, load  # here: what only a load needs takes a second to import

    home = TwinHome.from_environment()
    servers = Servers.running(home)
    failed = load(home, servers, Wanted(rate, seconds, model, sqs, follow), console)
    if failed:
        errors.print(f"error: {failed} requests failed", style="red", markup=False)
        raise typer.Exit(1)


@app.command("status")
def show_status(
    as_json: Annotated[bool, typer.Option("--json", help="one JSON document, for programs")] = False,
) -> None:
    """Show what the twin has: release, resources, pods, endpoints, the last inference."""
    home = TwinHome.from_environment()
    found = status.read(home, Servers.running(home))
    print(found.to_json() if as_json else "\n".join(status.lines(found)))


@app.command()
def env() -> None:
    """Print what makes a shell the twin's: eval "$(python3 -m twin env)". Its `leave_twin` makes it what it was."""
    try:
        home = TwinHome.from_environment()
        variables = {**Servers.running(home).variables(), "PULUMI_STACK": up_command.STACK}
    except EXPECTED as error:
        print(shell.refuse(str(error)))
        raise typer.Exit(1) from None
    print(shell.enter(home, variables, os.environ))


@app.command("preview")
def show_preview(
    stack: StackArgument = "",
    against: Annotated[str | None, typer.Option(metavar="REV", help="apply this git revision's program first")] = None,
    diff: Annotated[bool, typer.Option("--diff", help="every property, as the engine's rich diff")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON document, for programs")] = False,
    events: Annotated[bool, typer.Option("--events", help="the engine's events as they come, one JSON a line")] = False,
) -> None:
    """Show what `pulumi up` would do to an environment and what policies say of it, with no credentials."""
    stack_names.file_of(stack, REPOSITORY)
    if against is not None:
        scratch.check(against)
    home = TwinHome.from_environment()
    progress = errors if as_json or events else console
    with _interruptible(home), contextlib.ExitStack() as cleanup:
        if against is None:
            with home.lock(f"python3 -m twin preview {stack}"):
                servers = Servers.start(home, tools.ensure(PROGRAMS, progress), progress, with_agent=False)
        else:
            servers = cleanup.enter_context(scratch.twin(home, progress))
            scratch.apply(servers, stack, against, progress)
        _run_preview(servers.engine(), stack, diff=diff, as_json=as_json, events=events)
    if against is None and servers.started:
        progress.print(
            f"the servers that this preview started keep running, for the next one: {', '.join(servers.started)}. "
            "`make down` ends them."
        )


@app.command("pulumi", hidden=True, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def run_pulumi(context: typer.Context) -> None:
    """What `pulumi` is in the twin's shell: the real engine, on this twin's copy of the stack file."""
    servers = Servers.running(TwinHome.from_environment())
    sys.exit(servers.engine().run(engine.stack_of(context.args, default=up_command.STACK), context.args))


@app.command("triton")
def run_triton(
    models: Annotated[Path, typer.Argument(metavar="MODELS_DIR", help="a model repository, e.g. models/")],
) -> None:
    """Run one real tritonserver over MODELS_DIR, nothing loaded, until Ctrl-C; no cluster, no twin needed."""
    standalone.serve(models, lambda line: print(line, flush=True))


def say(line: str) -> None:
    """One line of progress."""
    console.print(line, markup=False)


def _programs(home: TwinHome, families: Sequence[str]) -> Mapping[str, Path]:
    """The programs of `up`. The first one builds them, and shows what it will make as soon as Pulumi is there."""
    is_first = home.load_endpoints().kubeconfig is None
    with tools.building([*PROGRAMS, *families], console) as found:
        if is_first and found.lacks("control-plane"):
            servers = Servers.without_cluster(home, found.wait("pulumi"), say)
            up_command.preview(servers, say)
        return found.wait()


def _run_preview(pulumi: Engine, stack: str, *, diff: bool, as_json: bool, events: bool) -> None:
    if as_json:
        found = preview.read(pulumi, stack)
        print(found.to_json())
        if found.refused:
            raise EngineError(f"{stack} violates mandatory policies; the document names them")
        return
    if events:
        preview.show(pulumi, stack, ["--json", "--non-interactive"], preview.STREAM)
    else:
        preview.show(pulumi, stack, ["--diff"] if diff else [])


def _print_answer(answer: Answer) -> None:
    outputs = ", ".join(f"{name} {values}" for name, values in answer.outputs.items())
    console.print(
        f"\n{answer.model} version {answer.version} answered {outputs} in {answer.latency_ms} ms ({answer.address}, gRPC)",
        markup=False,
    )


def _print_endpoints(servers: Servers) -> None:
    console.print("\nWhere things are:\n")
    for line in status.table(list(servers.endpoints().items())):
        console.print(line, markup=False)


@contextlib.contextmanager
def _interruptible(home: TwinHome) -> Iterator[None]:
    """Turns Ctrl-C into a sentence that says what is left. Raises Interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        alive = sorted(record.name for record in processes.records(home) if record.alive())
        left = f"still running: {', '.join(alive)}" if alive else "nothing of the twin is running"
        raise Interrupted(
            f"stopped by Ctrl-C; {left}. What was built or made is kept: the same command goes on from there, "
            "`make down` ends and removes the twin"
        ) from None
