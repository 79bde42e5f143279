"""Run `stackctl preflight`."""

from __future__ import annotations

from console.terminal import output, print_json
from spec.failure import FAILED
from stackctl.account.guard import caller
from stackctl.account.read_only import Readers
from stackctl.preflight.checks import CHECKS
from stackctl.preflight.checks.check import Subject
from stackctl.preflight.operations import OPERATIONS
from stackctl.preflight.report import document, failed, rows, show, summary
from stackctl.stack_settings import settings_of


def preflight(stack: str, *, as_json: bool) -> int:
    """Print what an account lacks for a stack; return the exit code, FAILED when `pulumi up` would fail. Raises Failure."""
    settings = settings_of(stack)
    readers = Readers(settings.region, OPERATIONS)
    who = caller(readers)
    found = rows(Subject(settings, readers, who), CHECKS)
    if as_json:
        print_json({"stack": stack, "account": who.account, "region": settings.region, **document(found)})
    else:
        console = output()
        show(found, console)
        console.print(f"\n{stack}: {summary(found)}")
    return FAILED if failed(found) else 0
