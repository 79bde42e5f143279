"""`python3 -m stackctl.orphans STACK`: what AWS still has of a stack. Exit code 1 when there is something."""

from __future__ import annotations

import typer
from botocore.exceptions import BotoCoreError, ClientError

from console.stack_argument import StackArgument, fail, settings_of
from console.terminal import terminal
from stackctl.account.guard import WrongAccount, caller, require_account
from stackctl.account.ownership import Ownership
from stackctl.account.read_only import AwsUnusable, Readers, is_denied
from stackctl.orphans.find import leftovers
from stackctl.orphans.operations import OPERATIONS
from stackctl.orphans.report import show
from stackctl.orphans.search import Search


def main(stack: StackArgument = "") -> None:
    """List what AWS still has, and bills, of a stack. Nothing is changed, and nothing can be."""
    settings = settings_of(stack)
    try:
        readers = Readers(settings.region, OPERATIONS)
        require_account(caller(readers), settings)
        found = leftovers(Search(readers, Ownership.of(settings)))
    except (AwsUnusable, WrongAccount) as error:
        fail(str(error), 2)
    except ClientError as error:
        actions = readers.actions_of(error.operation_name)
        needs = f"the credentials need {actions}: docs/teardown.md has the whole policy" if is_denied(error) else str(error)
        fail(f"the search is not complete: {needs}", 2)
    except BotoCoreError as error:
        fail(f"the search is not complete: {error}", 2)
    show(stack, found, terminal())
    if found:
        raise typer.Exit(1)
