"""Run `stackctl preflight`: execute all checks of a stack and report their findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from console.terminal import output, print_json, table
from spec.failure import FAILED
from stackctl.account.guard import caller
from stackctl.account.read_only import Readers
from stackctl.preflight.checks import CHECKS
from stackctl.preflight.checks.check import Check, Finding, Status, Subject, findings
from stackctl.preflight.operations import OPERATIONS
from stackctl.stack_settings import settings_of

_STYLES = {Status.OK: "green", Status.WARN: "yellow", Status.FAIL: "bold red", Status.UNKNOWN: "cyan"}


def preflight(stack: str, *, as_json: bool) -> int:
    """Print what an account lacks for a stack; return the exit code, FAILED if `pulumi up` would fail. Raises Failure."""
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


@dataclass(frozen=True)
class Row:
    """A finding and its check."""

    check: str
    finding: Finding


def rows(subject: Subject, checks: Iterable[Check]) -> list[Row]:
    """Return the findings of every check."""
    return [Row(check.name, finding) for check in checks for finding in findings(check, subject)]


def failed(found: Sequence[Row]) -> bool:
    """Return whether `pulumi up` would fail."""
    return any(row.finding.status is Status.FAIL for row in found)


def summary(found: Sequence[Row]) -> str:
    """Count the findings by status: `2 fail, 1 warn, 9 ok`."""
    counts = {status: sum(row.finding.status is status for row in found) for status in Status}
    order = (Status.FAIL, Status.WARN, Status.UNKNOWN, Status.OK)
    return ", ".join(f"{counts[status]} {status}" for status in order if counts[status])


def document(found: Sequence[Row]) -> dict[str, Any]:
    """Return the findings as the document that `--json` prints."""
    checks = [
        {
            "check": row.check,
            "status": row.finding.status.value,
            "message": row.finding.message,
            "remedy": row.finding.remedy or None,
        }
        for row in found
    ]
    return {"ok": not failed(found), "checks": checks}


def show(found: Sequence[Row], console: Console) -> None:
    """Print the table, then the remedies in full so that commands can be copied."""
    made = table("check", "result", "finding", fold=True)
    before = ""
    for row in found:
        finding = row.finding
        name = row.check if row.check != before else ""
        before = row.check
        made.add_row(name, Text(finding.status, style=_STYLES[finding.status]), Text(finding.message))
    console.print(made)
    to_do = [row for row in found if row.finding.remedy]
    if to_do:
        console.print("\nWhat to do:")
    for row in to_do:
        console.print(f"  {row.check} ({row.finding.status}): {row.finding.message.partition(';')[0]}")
        console.print(f"    {row.finding.remedy}", soft_wrap=True)
