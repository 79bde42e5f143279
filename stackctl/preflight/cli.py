"""`python3 -m stackctl.preflight STACK`: what the account lacks for a stack. Exit code 1 when `pulumi up` would fail."""

from __future__ import annotations

import typer

from console.stack_argument import StackArgument, fail, settings_of
from console.terminal import terminal
from stackctl.account.guard import caller
from stackctl.account.read_only import AwsUnusable, Readers
from stackctl.preflight.check import Subject
from stackctl.preflight.checks import CHECKS
from stackctl.preflight.operations import OPERATIONS
from stackctl.preflight.report import failed, rows, show, summary


def main(stack: StackArgument = "") -> None:
    """Compare an AWS account with what a stack needs. Nothing is changed, and nothing can be."""
    settings = settings_of(stack)
    try:
        readers = Readers(settings.region, OPERATIONS)
        found = rows(Subject(settings, readers, caller(readers)), CHECKS)
    except AwsUnusable as error:
        fail(str(error), 2)
    console = terminal()
    show(found, console)
    console.print(f"\n{stack}: {summary(found)}")
    if failed(found):
        raise typer.Exit(1)
