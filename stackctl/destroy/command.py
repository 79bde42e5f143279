"""Run `stackctl destroy`, which `make destroy` calls."""

from __future__ import annotations

import sys

import typer
from botocore.exceptions import BotoCoreError, ClientError

from console.program import interruptible
from console.pulumi_program import PulumiFailed
from console.terminal import output
from spec.failure import FAILED, NOT_TRIED, Failure
from spec.settings import Settings
from spec.stack_names import stack_file
from stackctl.account import api_server
from stackctl.account.guard import Caller, caller, require_account
from stackctl.account.read_only import AwsUnusable, Readers
from stackctl.cost import prices
from stackctl.destroy.engine import Engine
from stackctl.destroy.guards import objections
from stackctl.destroy.run import Teardown
from stackctl.destroy.state import Resource
from stackctl.orphans.operations import OPERATIONS
from stackctl.orphans.report import show
from stackctl.orphans.search import Leftover, Search
from stackctl.stack_settings import settings_of

_BUCKET = "aws:s3/bucket:Bucket"


class NotDeleted(Failure):
    """Nothing was deleted: it must not be, or the confirmation is missing."""

    exit_code = NOT_TRIED


def destroy(stack: str, confirm: str) -> int:
    """Delete a stack; return FAILED if AWS still has resources of it.

    Otherwise return 0. Raises Failure.
    """
    settings = settings_of(stack)
    with interruptible("interrupted; what is gone is gone, and the same command goes on from here"):
        readers = Readers(settings.region, OPERATIONS)
        table = prices.load(settings.region)
        who = caller(readers)
        require_account(who, settings)
        engine = Engine(stack)
        resources = engine.resources()
        try:
            reasons = objections(settings, readers, resources)
            if reasons:
                raise NotDeleted("\n".join([f"{stack} is not taken away:", *(f"  {reason}" for reason in reasons)]))
            _confirm(settings, who, resources, confirm)
            left = _take_down(settings, readers, Teardown(engine, lambda: Search.of(settings, readers, table), _say))
        except (ClientError, BotoCoreError) as error:
            again = "run the same command again, it goes on from here"
            raise AwsUnusable(f"AWS could not be asked what is left: {error}; {again}") from None
    show(stack, left, table, output())
    kept = any(resource.retained and resource.type == _BUCKET for resource in resources)
    if settings.models.release is not None and not kept:
        _say(
            f"{stack_file(stack)} pins a release that has gone with its bucket; before another `up`: pulumi config rm "
            f"--path triton-eks:models.release --stack {stack}"
        )
    # Pulumi has just printed the command without the flag. Without it, the command also deletes the tracked stack file.
    _say(f"To remove the empty stack from Pulumi's state too: pulumi stack rm {stack} --preserve-config")
    return FAILED if left else 0


def _take_down(settings: Settings, readers: Readers, teardown: Teardown) -> list[Leftover]:
    """Run the teardown; return the remaining resources.

    If the engine fails, the error also says whether this machine reaches the API server.
    """
    try:
        return teardown.run()
    except PulumiFailed as error:
        try:
            server = api_server.find(settings, readers)
        except (ClientError, BotoCoreError):  # perhaps the cause of the engine's failure
            raise error from None
        why = api_server.silence(server) if server is not None else None
        if server is None or why is None:
            raise
        raise type(error)(
            f"{error}\nThe API server {server.host} does not answer this machine ({why}): {api_server.ways_in(settings)}"
        ) from None


def _confirm(settings: Settings, who: Caller, resources: list[Resource], confirm: str) -> None:
    """Refuse to continue without the stack's name as confirmation. Raises NotDeleted."""
    stack = settings.stack
    own = [resource for resource in resources if resource.custom]
    kept = [resource.name for resource in own if resource.retained]
    _say(f"{stack}: {len(own)} resources of account {who.account} in {settings.region}, cluster {settings.used_cluster}.")
    if kept:
        _say(f"Forgotten and left in AWS: {', '.join(kept)}.")
    if not confirm and sys.stdin.isatty():
        confirm = typer.prompt("Type the name of the stack to delete it", default="", show_default=False)
    if confirm != stack:
        raise NotDeleted(f"nothing was deleted: to delete {stack}, say so: make destroy STACK={stack} CONFIRM={stack}")


def _say(line: str) -> None:
    print(line, flush=True)
