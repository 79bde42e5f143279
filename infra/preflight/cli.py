"""`python3 -m infra.preflight STACK`: what the account lacks for a stack. Exit code 1 when `pulumi up` would fail."""

from __future__ import annotations

import typer

from infra.account_guard import caller
from infra.preflight.check import Subject
from infra.preflight.checks import CHECKS
from infra.preflight.operations import OPERATIONS
from infra.preflight.report import failed, rows, show, summary
from infra.read_only import AwsUnusable, Readers
from infra.stack_argument import StackArgument, fail, settings_of
from infra.terminal import terminal


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
