"""The twin's command line. Each command is a few lines; what it does stands in the module of its name."""

import shlex
import sys
import time
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from twin import down as down_command
from twin import engine, preview, scratch, stack_files, status
from twin import up as up_command
from twin.cluster_view import ClusterUnreadable
from twin.engine import Engine, EngineError
from twin.home import TwinBusy, TwinHome
from twin.inference import Answer, InferenceFailed
from twin.processes import DeadlinePassed, ProcessFailed
from twin.servers import NotRunning, Servers
from twin.tools import ToolError

app = typer.Typer(
    help="Triton on EKS on this machine: real Pulumi, a real Kubernetes control plane, real Triton, and moto for AWS.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console(highlight=False, soft_wrap=True)
errors = Console(stderr=True, highlight=False, soft_wrap=True)

EXPECTED = (
    up_command.UpFailed,
    scratch.UnknownRevision,
    ClusterUnreadable,
    EngineError,
    stack_files.StackFileUnreadable,
    InferenceFailed,
    NotRunning,
    TwinBusy,
    ProcessFailed,
    DeadlinePassed,
    ToolError,
)
StackArgument = Annotated[str, typer.Argument(help="local, dev, staging or prod")]


def main() -> None:
    """Runs the command line; an expected failure is one message on standard error and exit code 1."""
    try:
        app()
    except EXPECTED as error:
        errors.print(f"error: {error}", style="red", markup=False)
        sys.exit(1)


@app.command()
def up() -> None:
    """Bring the `local` stack up, send one inference, and say where things are."""
    started = time.monotonic()
    home = TwinHome.from_environment()
    with home.lock("python -m twin up"):
        servers = Servers.start(home, console)
        answer = up_command.up(home, servers, say)
    _print_answer(answer)
    _print_endpoints(servers)
    console.print(f"\nup in {time.monotonic() - started:.0f} s. How to go on:\n", markup=False)
    console.print(
        '  eval "$(python -m twin env)"        # pulumi, kubectl, aws and helm of this shell talk to the twin\n'
        "  kubectl get pods -A -o wide\n"
        "  python -m twin preview prod         # any environment, without credentials\n"
        "  make down                           # stop and remove all of it",
        markup=False,
    )


@app.command()
def down() -> None:
    """Stop every process of the twin and remove its directory."""
    home = TwinHome.from_environment()
    for line in down_command.down(home):
        say(line)


@app.command("status")
def show_status(
    as_json: Annotated[bool, typer.Option("--json", help="one JSON document, for programs")] = False,
) -> None:
    """Show what the twin has: release, resources, pods, endpoints, the last inference."""
    home = TwinHome.from_environment()
    found = status.read(home, Servers.running(home))
    if as_json:
        print(found.to_json())
    else:
        _print_status(found)


@app.command()
def env() -> None:
    """Print what a shell needs to talk to the twin: eval "$(python -m twin env)"."""
    servers = Servers.running(TwinHome.from_environment())
    for name, value in servers.variables().items():
        print(f"export {name}={shlex.quote(value)}")
    print(f"export PULUMI_STACK={up_command.STACK}")


@app.command("preview")
def show_preview(
    stack: StackArgument,
    against: Annotated[str | None, typer.Option(metavar="REV", help="apply this git revision's program first")] = None,
    diff: Annotated[bool, typer.Option("--diff", help="every property, as the engine's rich diff")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON document, for programs")] = False,
) -> None:
    """Show what `pulumi up` would do to an environment, with no credentials: the engine's own preview."""
    _check_stack(stack)
    home = TwinHome.from_environment()
    progress = Console(quiet=True) if as_json else console
    if against is None:
        with home.lock(f"python -m twin preview {stack}"):
            servers = Servers.start(home, progress, with_agent=False)
        _run_preview(servers.engine(), stack, diff, as_json)
        return
    with scratch.twin(home, progress) as servers:
        scratch.apply(servers, stack, against, progress)
        _run_preview(servers.engine(), stack, diff, as_json)


@app.command("pulumi", hidden=True, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def run_pulumi(context: typer.Context) -> None:
    """What `pulumi` is in the twin's shell: the real engine, on this twin's copy of the stack file."""
    servers = Servers.running(TwinHome.from_environment())
    sys.exit(servers.engine().run(engine.stack_of(context.args, default=up_command.STACK), context.args))


def say(line: str) -> None:
    """One line of progress."""
    console.print(line, markup=False)


def _check_stack(stack: str) -> None:
    if stack not in stack_files.STACKS:
        raise typer.BadParameter(f"there is no stack {stack!r}; the stacks are {', '.join(stack_files.STACKS)}")


def _run_preview(pulumi: Engine, stack: str, diff: bool, as_json: bool) -> None:
    if as_json:
        print(preview.to_json(stack, preview.steps(pulumi, stack)))
        return
    code = pulumi.run(stack, ["preview", *(["--diff"] if diff else [])])
    if code != 0:
        raise EngineError(f"the preview of {stack} ended with {code}; what it says above is the cause")


def _print_answer(answer: Answer) -> None:
    outputs = ", ".join(f"{name} {values}" for name, values in answer.outputs.items())
    console.print(
        f"\n{answer.model} version {answer.version} answered {outputs} in {answer.latency_ms} ms ({answer.address}, gRPC)",
        markup=False,
    )


def _print_endpoints(servers: Servers) -> None:
    console.print("\nWhere things are:\n")
    for name, value in servers.endpoints().items():
        console.print(f"  {name:<12} {value}", markup=False)


def _print_status(found: status.Status) -> None:
    release = found.release or {}
    console.print(
        f"stack {found.stack}, release {release.get('id', '(none yet)')}, {sum(found.resources.values())} resources",
        markup=False,
    )
    table = Table("namespace", "pod", "node", "address", "phase", "ready", box=None)
    for pod in found.pods:
        table.add_row(
            pod["namespace"],
            pod["name"],
            pod["node"],
            pod["address"],
            pod["phase"],
            "yes" if pod["ready"] else "no",
        )
    console.print(table)
    for name, value in found.endpoints.items():
        console.print(f"  {name:<12} {value}", markup=False)
    if found.last_inference:
        last = found.last_inference
        console.print(
            f"last inference: {last['model']} version {last['version']}, {last['latency_ms']} ms, at {last['at']}",
            markup=False,
        )
