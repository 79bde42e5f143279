"""Define the commands of `twin`. Each imports what it does when it is called: what all of them need takes two seconds."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from console import terminal
from console.exit_codes import EPILOG
from console.explanation import explain
from console.options import Json, StackArgument, options_of_the_program
from console.program import interruptible
from spec import stack_names
from spec.failure import Failure
from twin.host.home import REPOSITORY, TwinHome

if TYPE_CHECKING:
    from twin.commands.inference import Answer
    from twin.engine.engine import Engine
    from twin.services.servers import Servers

app = typer.Typer(
    help="Triton on EKS on this machine: real Pulumi, a real Kubernetes control plane, real Triton, and moto for AWS.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.callback()(options_of_the_program)
Trace = Annotated[
    str,
    typer.Option(
        metavar="FILE|SAMPLE", help="steps, ramp, diurnal, flash-crowd, slow-pod, prometheus-away, or a file: CSV, JSON"
    ),
]
BatchMs = Annotated[
    list[str] | None,
    typer.Option(metavar="MODEL=ONE:FULL", help="ms of a batch of one and of a full one; default: measured, or assumed"),
]

output = terminal.output(soft_wrap=True)
progress = terminal.progress(soft_wrap=True)


@app.command()
def up(
    autoscaling: Annotated[
        bool, typer.Option("--autoscaling", help="with KEDA, Prometheus and a slow model: pods that follow a load")
    ] = False,
    gateway: Annotated[bool, typer.Option("--gateway", help="with Envoy Gateway and Envoy behind a load balancer")] = False,
    karpenter: Annotated[bool, typer.Option("--karpenter", help="with Karpenter, which starts the nodes for pods")] = False,
) -> None:
    """Bring the `local` stack up, send one inference, and say where things are."""
    from twin.charts import registry
    from twin.commands import shell
    from twin.commands import up as up_command
    from twin.engine import stack_files
    from twin.services import prerequisites, release_sources
    from twin.services.servers import Servers

    started = time.monotonic()
    home = TwinHome.from_environment()
    with interruptible(lambda: _left(home)), home.lock("python3 -m twin up"):
        pictures = release_sources.with_pictures(autoscaling, gateway)
        prerequisites.check(home, pictures=pictures, gateway=gateway)
        stack_files.ask_for_autoscaling(home, autoscaling)
        stack_files.ask_for_gateway(home, gateway)
        stack_files.ask_for_karpenter(home, karpenter)
        stack = stack_files.config(home, stack_files.STACK)
        servers = Servers.start(home, up_command.programs(home, registry.families(stack), output), output)
        answer = up_command.up(home, servers, say)
    if answer is not None:
        _print_answer(answer)
    _print_endpoints(servers)
    say(f"\nup in {time.monotonic() - started:.0f} s. How to go on:\n")
    if autoscaling:
        say(
            "  python3 -m twin load --rate 30 --seconds 120         # pods that follow a load\n"
            "  python3 -m twin load --rate 10 --seconds 60 --sqs    # workers that follow a queue, from none"
        )
    say(
        '  eval "$(python3 -m twin env)"       # pulumi, kubectl, aws and helm of this shell talk to the twin\n'
        "  kubectl get pods -A -o wide\n"
        f"  {shell.LEAVE:<35} # the shell is again what it was\n"
        "  python3 -m twin preview prod        # any environment, without credentials\n"
        "  make down                           # stop and remove all of it"
    )


@app.command()
def down() -> None:
    """Stop every process of the twin and remove its directory."""
    from twin.commands import down as down_command

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
        typer.Option(
            min=0, metavar="SECONDS", help="seconds to watch the pods after the load; default: until their number stays"
        ),
    ] = None,
) -> None:
    """Send requests to the twin, and show live how its pods follow; Ctrl-C ends it."""
    from twin.load.command import Wanted, load
    from twin.services.servers import Servers

    home = TwinHome.from_environment()
    servers = Servers.running(home)
    failed = load(home, servers, Wanted(rate, seconds, model, sqs, follow), output)
    if failed:
        raise Failure(f"{failed} requests failed")


@app.command("status")
def show_status(
    verbose: Annotated[bool, typer.Option("--verbose", help="List the resources by type, too.")] = False,
    as_json: Json = False,
) -> None:
    """Show what the twin has: release, resources, pods, endpoints, the last inference."""
    from twin.commands import status
    from twin.services.servers import Servers

    home = TwinHome.from_environment()
    found = status.read(home, Servers.running(home))
    if as_json:
        terminal.print_json(dataclasses.asdict(found))
    else:
        print("\n".join(status.lines(found, verbose=verbose)))


@app.command()
def env() -> int:
    """Print shell code that turns a shell to the twin: eval "$(python3 -m twin env)"; `leave_twin` undoes it."""
    from twin.commands import shell
    from twin.engine.stack_files import STACK
    from twin.services.servers import Servers

    try:
        home = TwinHome.from_environment()
        variables = {**Servers.running(home).variables(), "PULUMI_STACK": STACK}
    except (Failure, OSError, KeyboardInterrupt) as error:
        told = explain(error, "twin")
        print(shell.refuse(told.text))
        return told.exit_code
    print(shell.enter(home, variables, os.environ))
    return 0


@app.command("preview")
def show_preview(
    stack: StackArgument = "",
    against: Annotated[str | None, typer.Option(metavar="REV", help="apply this git revision's program first")] = None,
    first: Annotated[
        bool, typer.Option("--first", help="as the first preview on AWS: no kubeconfig, so no object of our charts")
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="every property, as the engine's rich diff")] = False,
    as_json: Json = False,
    events: Annotated[bool, typer.Option("--events", help="the engine's events as they come, one JSON a line")] = False,
) -> None:
    """Show what `pulumi up` would do to an environment and what policies say of it, with no credentials."""
    from twin.host import tools
    from twin.services import scratch
    from twin.services.servers import PROGRAMS, Servers

    stack_names.file_of(stack, REPOSITORY)
    if against is not None and first:
        raise typer.BadParameter("--first: with --against the cluster exists; give one of the two")
    forms = [name for name, chosen in {"--diff": diff, "--json": as_json, "--events": events}.items() if chosen]
    if len(forms) > 1:
        raise typer.BadParameter(f"{' and '.join(forms)}: each is a form of the output; give one of them")
    if against is not None:
        scratch.check(against)
    home = TwinHome.from_environment()
    told = progress if as_json or events else output
    with interruptible(lambda: _left(home)), contextlib.ExitStack() as cleanup:
        if against is None:
            with home.lock(f"python3 -m twin preview {stack}"):
                servers = Servers.start(home, tools.ensure(PROGRAMS, told), told, with_agent=False)
        else:
            servers = cleanup.enter_context(scratch.twin(home, told))
            scratch.apply(servers, stack, against, told)
        _run_preview(servers.engine(), stack, first=first, diff=diff, as_json=as_json, events=events)
    if against is None and servers.started:
        told.print(
            f"the servers that this preview started keep running, for the next one: {', '.join(servers.started)}. "
            "`make down` ends them."
        )


@app.command("rehearse")
def rehearse_change(
    state: Annotated[
        Path | None, typer.Option(metavar="FILE", help="what `pulumi stack export` of the real stack has written")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="REV",
            help="bring `local` up as of this git revision, and make the change under load (with --state: the one deployed)",
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Say what this checkout would replace, lose or interrupt in the exported state of a real stack, and under load."""
    from twin.rehearse import command

    home = TwinHome.from_environment()
    with interruptible(lambda: _left(home)):
        if state is not None:
            return command.rehearse(home, state, since, as_json=as_json, progress=progress, output=output)
        if since is not None:
            return command.rehearse_made(home, since, as_json=as_json, progress=progress, output=output)
        raise typer.BadParameter("give --state FILE (of a real stack), --from REV (of `local`), or both")


@app.command("replay")
def replay_trace(
    stack: StackArgument = "",
    trace: Trace = "diurnal",
    against: Annotated[
        str | None, typer.Option(metavar="REV|FILE", help="compare with the settings of this git revision or stack file")
    ] = None,
    batch_ms: BatchMs = None,
    as_json: Json = False,
) -> None:
    """Simulate how a stack's autoscaling follows a trace of requests: missed SLOs, GPU-hours, money."""
    from twin.replay import command

    command.replay(stack, trace, against, batch_ms or [], as_json=as_json)


@app.command("advise")
def advise_stack(
    stack: StackArgument = "", trace: Trace = "diurnal", batch_ms: BatchMs = None, as_json: Json = False
) -> None:
    """Simulate changes of a stack's autoscaling on a trace, and print those that help, best first, to paste."""
    from twin.replay import advice

    advice.advise(stack, trace, batch_ms or [], as_json=as_json)


@app.command("pulumi", hidden=True, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def run_pulumi(context: typer.Context) -> int:
    """Run the real engine on this twin's copy of the stack file: what `pulumi` is in the twin's shell."""
    from twin.engine import engine
    from twin.engine.stack_files import STACK
    from twin.services.servers import Servers

    servers = Servers.running(TwinHome.from_environment())
    stack = engine.stack_of(context.args, default=STACK)
    engine.refuse_writes_of_configuration(context.args, stack)
    return servers.engine().run(stack, context.args)


@app.command("triton")
def run_triton(
    models: Annotated[Path, typer.Argument(metavar="MODELS_DIR", help="a model repository, e.g. models/")],
) -> None:
    """Run one real tritonserver over MODELS_DIR, nothing loaded, until Ctrl-C; no cluster, no twin needed."""
    from twin.triton import standalone

    standalone.serve(models, lambda line: print(line, flush=True))


def say(line: str) -> None:
    """Print one line of progress."""
    output.print(line)


def _run_preview(pulumi: Engine, stack: str, *, first: bool, diff: bool, as_json: bool, events: bool) -> None:
    from twin.commands import preview
    from twin.engine.engine import EngineError

    if first:
        pulumi = preview.without_a_cluster(pulumi, stack)
    if as_json:
        found = preview.read(pulumi, stack)
        terminal.print_json(dataclasses.asdict(found))
        if found.refused:
            raise EngineError(f"{stack} violates mandatory policies; the document names them")
        return
    if events:
        preview.show(pulumi, stack, ["--json", "--non-interactive"], preview.STREAM)
    else:
        preview.show(pulumi, stack, ["--diff"] if diff else [])


def _print_answer(answer: Answer) -> None:
    outputs = ", ".join(f"{name} {values}" for name, values in answer.outputs.items())
    say(f"\n{answer.model} version {answer.version} answered {outputs} in {answer.latency_ms} ms ({answer.address}, gRPC)")
    from twin.commands.inference import PICTURE_TEXT
    from twin.services.release_sources import PICTURE_MODEL

    if answer.read:
        lines = " / ".join(answer.read)
        say(f'{PICTURE_MODEL} read in a picture of "{PICTURE_TEXT}": {lines}')


def _print_endpoints(servers: Servers) -> None:
    from twin.commands import status

    say("\nWhere things are:\n")
    for line in status.table(list(servers.endpoints().items())):
        say(line)


def _left(home: TwinHome) -> str:
    """Return what Ctrl-C leaves, and how to go on."""
    from twin.host import processes

    alive = sorted(record.name for record in processes.records(home) if record.alive())
    left = f"still running: {', '.join(alive)}" if alive else "nothing of the twin is running"
    return (
        f"stopped by Ctrl-C; {left}. What was built or made is kept: the same command goes on from there, "
        "`make down` ends and removes the twin"
    )
