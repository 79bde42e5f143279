"""`python3 -m stackctl.destroy STACK`: what `make destroy` runs. Exit code 1 when something of the stack is left in AWS."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from botocore.exceptions import BotoCoreError, ClientError

from console.stack_argument import StackArgument, fail, settings_of
from console.terminal import terminal
from spec.settings import Settings
from stackctl.account.guard import Caller, WrongAccount, caller, require_account
from stackctl.account.ownership import Ownership
from stackctl.account.read_only import AwsUnusable, Readers
from stackctl.destroy.engine import Engine, EngineFailed
from stackctl.destroy.guards import objections
from stackctl.destroy.run import Teardown
from stackctl.destroy.state import Resource
from stackctl.destroy.waits import StillThere
from stackctl.orphans.operations import OPERATIONS
from stackctl.orphans.report import show
from stackctl.orphans.search import Search


def main(
    stack: StackArgument = "",
    confirm: Annotated[str, typer.Option(help="The stack's name once more, where nobody can be asked to type it.")] = "",
) -> None:
    """Delete a stack: what makes nodes and load balancers, the rest of the cluster's inside, the cluster and its network."""
    settings = settings_of(stack)
    try:
        readers = Readers(settings.region, OPERATIONS)
        who = caller(readers)
        require_account(who, settings)
        engine = Engine(stack)
        resources = engine.resources()
        reasons = objections(settings, readers, resources)
        if reasons:
            fail("\n".join([f"{stack} is not taken away:", *(f"  {reason}" for reason in reasons)]), 2)
        _confirm(settings, who, resources, confirm)
        left = Teardown(engine, lambda: Search(readers, Ownership.of(settings)), _say).run()
    except (AwsUnusable, WrongAccount, EngineFailed, StillThere) as error:
        fail(str(error), 2)
    except (ClientError, BotoCoreError) as error:
        fail(f"AWS could not be asked what is left: {error}; run the same command again, it goes on from here", 2)
    except KeyboardInterrupt:
        fail("interrupted; what is gone is gone, and the same command goes on from here", 130)
    show(stack, left, terminal())
    # Pulumi has just said it without the flag, and then deletes the stack's file, which is tracked.
    _say(f"To remove the empty stack from Pulumi's state too: pulumi stack rm {stack} --preserve-config")
    if left:
        raise typer.Exit(1)


def _confirm(settings: Settings, who: Caller, resources: list[Resource], confirm: str) -> None:
    """Ends the command unless somebody has named the stack."""
    stack = settings.environment
    own = [resource for resource in resources if resource.custom]
    kept = [resource.name for resource in own if resource.retained]
    _say(f"{stack}: {len(own)} resources of account {who.account} in {settings.region}, cluster {settings.cluster_name}.")
    if kept:
        _say(f"Forgotten and left in AWS: {', '.join(kept)}.")
    if not confirm and sys.stdin.isatty():
        confirm = typer.prompt("Type the name of the stack to delete it", default="", show_default=False)
    if confirm != stack:
        fail(f"nothing was deleted: to delete {stack}, say so: make destroy STACK={stack} CONFIRM={stack}", 2)


def _say(line: str) -> None:
    typer.echo(line)
    sys.stdout.flush()
