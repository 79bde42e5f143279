"""Run `stackctl review gate`, `same` and `unchanged`: what reports say about going on.

Each is a step of a workflow of its own. None of them reads settings or looks for secrets: importing what does takes longer
than they do.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from spec.failure import FAILED, NOT_TRIED, Failure
from stackctl.review import report_files, verdict
from stackctl.review.report import Report


class WrongPreview(Failure):
    """A preview that is of another stack than the one named."""

    exit_code = NOT_TRIED


def gate(reports: Sequence[Path]) -> int:
    """Say why changes may not go on; return the exit code, FAILED when one may not. Raises NoReport."""
    bad = {made.stack: problems for made in report_files.read_all(reports) if (problems := verdict.objections(made.plan))}
    for stack, problems in bad.items():
        print(f"{stack}: {'; '.join(problems)}", file=sys.stderr)
    return FAILED if bad else 0


def unchanged(reports: Sequence[Path]) -> int:
    """Name the stacks with changes or failures; return the exit code, FAILED when there are some. Raises NoReport."""
    differing = [made.stack for made in report_files.read_all(reports) if verdict.changes_something(made)]
    if differing:
        print(f"changes or failures: {', '.join(differing)}", file=sys.stderr)
    return FAILED if differing else 0


def same(approved: Path, now: Path) -> int:
    """Name what differs from the approved preview; return the exit code, FAILED when something does. Raises NoReport."""
    before, after = _only(approved), _only(now)
    if before.stack != after.stack:
        raise WrongPreview(f"{now} is of the stack {after.stack}, and what was approved of {before.stack}")
    differences = verdict.departures(before, after)
    for line in differences:
        print(f"{after.stack}: {line}", file=sys.stderr)
    return FAILED if differences else 0


def _only(path: Path) -> Report:
    found = report_files.read_all([path])
    if len(found) > 1:
        raise WrongPreview(f"{path} has the reports of {', '.join(made.stack for made in found)}; name the file of one")
    return found[0]
