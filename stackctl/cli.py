"""Define the commands of `stackctl`. Each imports what it does when it is called: AWS's packages take a second."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from console.exit_codes import EPILOG
from console.options import PLATFORM, Json, StackArgument, options_of_the_program
from stackctl.init.kind_of_nodes import Profile

app = typer.Typer(
    help="Create a stack, check it and its AWS account, delete it.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.callback()(options_of_the_program)
cost = typer.Typer(help="Estimate what a stack costs a month at list prices, from its stack file.", no_args_is_help=True)
review = typer.Typer(
    help="Tell the reviewers of a change what it would do to each stack (docs/pull-requests.md).", no_args_is_help=True
)
app.add_typer(cost, name="cost")
app.add_typer(review, name="review", rich_help_panel=PLATFORM)
keys = typer.Typer(help="Make, rotate and end the API keys of the gateway's clients (docs/access.md).", no_args_is_help=True)
app.add_typer(keys, name="keys")

Client = Annotated[str, typer.Argument(metavar="CLIENT", help="Client of gateway.clients in the stack file.")]
Against = Annotated[str | None, typer.Option(metavar="REV", help="Git revision to compare with.")]
Reports = Annotated[
    list[Path], typer.Argument(metavar="REPORT", help="File that `collect` wrote, or a folder of such files.")
]
Output = Annotated[Path | None, typer.Option(metavar="FILE", help="File to write, instead of standard output.")]


@app.command()
def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new stack: stacks/Pulumi.NAME.yaml is written.")],
    region: Annotated[str | None, typer.Option(help="AWS region.", show_default="that of the AWS configuration")] = None,
    api_from: Annotated[
        list[str] | None,
        typer.Option(metavar="RANGE", help="Addresses that may reach the Kubernetes API, like 198.51.100.7/32; repeatable."),
    ] = None,
    cost_center: Annotated[
        str | None, typer.Option(metavar="NAME", help="Cost center, for the tags of all resources.")
    ] = None,
    image: Annotated[
        str | None,
        typer.Option(help="Triton's image by its digest.", show_default="NVIDIA's, as its registry has it now"),
    ] = None,
    profile: Annotated[
        Profile, typer.Option(help="Nodes of Triton: with a GPU, or without, for an account whose quota for GPUs is 0.")
    ] = Profile.GPU,
) -> None:
    """Write a stack file for a first try, with values that fit this account, and create the stack."""
    from stackctl.init import command

    command.init(name, region, api_from or [], cost_center, image, profile)


@app.command()
def image(
    version: Annotated[str, typer.Argument(metavar="VERSION", help="NGC release of Triton, like 26.11.")],
    stack: Annotated[str, typer.Option(metavar="STACK", help="Stack whose file is written.")],
    mirror: Annotated[bool, typer.Option("--mirror", help="Copy it to ECR of the stack's account first.")] = False,
) -> None:
    """Look up the digest of Triton's image at NVIDIA's registry, and write it into a stack file."""
    from stackctl.images import command

    command.image(version, stack, mirrored=mirror)


@app.command("push-images")
def push_images(
    stack: Annotated[str, typer.Option(metavar="STACK", help="Stack whose file is written.")],
    source: Annotated[
        str,
        typer.Option(
            metavar="SOURCE",
            help="Folder that `make images` wrote, or a published release, like ghcr.io/<owner>/<repository>:v0.1.0.",
        ),
    ] = ".images",
) -> None:
    """Copy the images of modelctl and the worker to ECR, and write their digests into a stack file."""
    from stackctl.images import command

    command.push_images(stack, source)


@app.command()
def preflight(stack: StackArgument = "", as_json: Json = False) -> int:
    """Compare an AWS account with what a stack needs. Nothing is changed, and nothing can be."""
    from stackctl.preflight import command

    return command.preflight(stack, as_json=as_json)


@app.command("first-inference")
def first_inference(
    stack: StackArgument = "",
    yes: Annotated[bool, typer.Option("--yes", help="Let `pulumi up` ask nobody.")] = False,
) -> None:
    """Serve the models of `make models` on a stack that is up, ask one, and say where it listens and what it costs."""
    from stackctl.first_inference import command

    command.first_inference(stack, yes=yes)


@app.command()
def plan(
    stack: StackArgument = "",
    rate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL@POOL=RATE",
            help="Requests/s that a pod on the pool holds within the model's SLO, where no evidence of `modelctl tune` "
            "says it; repeatable.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Find the cheapest fleets for the rates and SLOs of a stack's models (docs/fleets.md#plan)."""
    from stackctl.plan import command

    command.plan(stack, rate or [], as_json=as_json)


@app.command()
def orphans(stack: StackArgument = "", as_json: Json = False) -> int:
    """List what AWS still has, and bills, of a stack. Nothing is changed, and nothing can be."""
    from stackctl.orphans import command

    return command.orphans(stack, as_json=as_json)


@app.command()
def certify(
    stack: StackArgument = "",
    hours: Annotated[float, typer.Option(min=0.1, max=48.0, help="How long it may take, without the teardown.")] = 3.0,
    confirm: Annotated[str, typer.Option(help="The stack's name once more, where nobody can be asked to type it.")] = "",
) -> int:
    """Bring up a stack that is not there, check the claims of docs/proven.md on it, and delete it; says the price first."""
    from stackctl.certify import command

    return command.certify(stack, hours=hours, confirm=confirm)


@app.command()
def destroy(
    stack: StackArgument = "",
    confirm: Annotated[str, typer.Option(help="The stack's name once more, where nobody can be asked to type it.")] = "",
) -> int:
    """Delete a stack in order: what makes nodes and load balancers, all else in the cluster, the cluster, its network."""
    from stackctl.destroy import command

    return command.destroy(stack, confirm)


@app.command()
def tunnel(
    stack: StackArgument = "",
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND", help="Behind --: a program to run through it, like pulumi. Without one it stays until Ctrl-C."
        ),
    ] = None,
) -> int:
    """Reach a private API server from here: by SSM through a node, for a program that honours HTTPS_PROXY or KUBECONFIG."""
    from stackctl.tunnel import command as tunnelled

    return tunnelled.tunnel(stack, command or [])


@app.command("cold-start")
def cold_start(
    stack: StackArgument = "",
    measured: Annotated[bool, typer.Option("--measured", help="Look at the pods that run, too.")] = False,
    as_json: Json = False,
) -> None:
    """Say where the time of a new pod's start goes, what makes it shorter, and which startSeconds is right."""
    from stackctl.cold_start import command

    command.cold_start(stack, measured=measured, as_json=as_json)


@app.command()
def rules(
    stack: StackArgument = "",
    runbooks: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where people on call read docs/runbooks.", show_default="docs/runbooks"),
    ] = None,
    operator: Annotated[
        bool, typer.Option("--operator", help="Print objects of kind PrometheusRule instead of a file.")
    ] = False,
) -> None:
    """Print the Prometheus rules of a stack as YAML, for a Prometheus of your own."""
    from stackctl.rules import as_yaml

    typer.echo(as_yaml(stack, runbooks, operator=operator), nl=False)


@keys.command("create")
def keys_create(stack: StackArgument = "", client: Client = "") -> None:
    """Make the first key of a client, in Secrets Manager. No key is printed."""
    from stackctl.keys import command

    command.create(stack, client)


@keys.command("rotate")
def keys_rotate(stack: StackArgument = "", client: Client = "") -> None:
    """Give a client a second key; called again, when the gateways know it, make that the current one."""
    from stackctl.keys import command

    command.rotate(stack, client)


@keys.command("expire")
def keys_expire(stack: StackArgument = "", client: Client = "") -> None:
    """End the key that was current before the last rotation."""
    from stackctl.keys import command

    command.expire(stack, client)


@keys.command("revoke")
def keys_revoke(stack: StackArgument = "", client: Client = "") -> None:
    """End every key of a client now and make another one: for a key in wrong hands."""
    from stackctl.keys import command

    command.revoke(stack, client)


@keys.command("delete")
def keys_delete(stack: StackArgument = "", client: Client = "") -> None:
    """Delete the keys of a client that the stack file does not name any more."""
    from stackctl.keys import command

    command.delete(stack, client)


@keys.command("list")
def keys_list(stack: StackArgument = "") -> None:
    """List who has keys, and who should have; no key is read."""
    from stackctl.keys import command

    command.show(stack)


@cost.command("show")
def cost_show(stack: StackArgument = "", against: Against = None, as_json: Json = False) -> None:
    """Show what a stack costs a month: with as few nodes as there may be, as expected, with the most."""
    from stackctl.cost import command

    command.show(stack, against, as_json=as_json)


@cost.command("refresh")
def cost_refresh(region: Annotated[str, typer.Argument(help="AWS region, like us-west-2.")]) -> int:
    """Look the prices of a region up in AWS's Price List API (pricing:GetProducts) and write its table."""
    from stackctl.cost import command

    return command.refresh(region)


@review.command("collect")
def review_collect(
    preview: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="Output of `twin preview --events` or `pulumi preview --json`; - is standard input."
        ),
    ],
    stack: StackArgument = "",
    against: Annotated[
        str | None, typer.Option(metavar="REV", help="Git revision that models, cost and quotas are compared with.")
    ] = None,
    replay: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Output of `twin replay STACK --against REV --json`; may be given for each trace."
        ),
    ] = None,
    output: Output = None,
) -> None:
    """Make the report of one stack, as JSON, from the engine's preview and the stack file."""
    from stackctl.review import command

    command.collect(stack, preview, against, replay or (), output)


@review.command("render")
def review_render(
    reports: Annotated[
        list[Path] | None, typer.Argument(metavar="REPORT", help="File that `collect` wrote, or a folder of such files.")
    ] = None,
    stacks: Annotated[
        list[str] | None,
        typer.Option("--stack", metavar="STACK", help="Stack that should have a report; told as failed when it has none."),
    ] = None,
    title: Annotated[str, typer.Option(metavar="TEXT", help="Heading of the comment.")] = "What this change does",
    name: Annotated[
        str, typer.Option(help="Name by which the comment is found again, to be edited instead of written anew.")
    ] = "preview",
    output: Output = None,
) -> None:
    """Make the comment of reports, in Markdown."""
    from stackctl.review import command

    command.render(reports or [], stacks or [], title, name, output)


@review.command("gate")
def review_gate(reports: Reports) -> int:
    """Fail when a preview failed, when a mandatory policy is not kept, and when no policy pack ran."""
    from stackctl.review import verdict

    return verdict.gate(reports)


@review.command("same")
def review_same(
    approved: Annotated[Path, typer.Argument(metavar="APPROVED", help="Report of the preview that was approved.")],
    now: Annotated[Path, typer.Argument(metavar="NOW", help="Report of a preview of the same stack, made since.")],
) -> int:
    """Fail when a preview would do something else than the one that was approved."""
    from stackctl.review import verdict

    return verdict.same(approved, now)


@review.command("unchanged")
def review_unchanged(reports: Reports) -> int:
    """Fail when a report has a change or a failure."""
    from stackctl.review import verdict

    return verdict.unchanged(reports)
