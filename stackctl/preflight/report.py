"""Ask all checks of a stack, and report what they found: a table for people, a document for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from console.terminal import table
from stackctl.preflight.checks.check import Check, Subject, findings
from stackctl.preflight.checks.finding import Finding, Status

_STYLES = {Status.OK: "green", Status.WARN: "yellow", Status.FAIL: "bold red", Status.UNKNOWN: "cyan"}


@dataclass(frozen=True)
class Row:
    """A finding, and the check that found it."""

    check: str
    finding: Finding


def rows(subject: Subject, checks: Iterable[Check]) -> list[Row]:
    """Return what every check finds."""
    return [Row(check.name, finding) for check in checks for finding in findings(check, subject)]


def failed(found: Sequence[Row]) -> bool:
    """Return whether `pulumi up` would fail."""
    return any(row.finding.status is Status.FAIL for row in found)


def summary(found: Sequence[Row]) -> str:
    """Return how often there is which result: `2 fail, 1 warn, 9 ok`."""
    counts = {status: sum(row.finding.status is status for row in found) for status in Status}
    order = (Status.FAIL, Status.WARN, Status.UNKNOWN, Status.OK)
    return ", ".join(f"{counts[status]} {status}" for status in order if counts[status])


def document(found: Sequence[Row]) -> dict[str, Any]:
    """Return what `--json` prints of the findings."""
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
    """Print the table. What to do stands below, in full: commands are there to be copied."""
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
