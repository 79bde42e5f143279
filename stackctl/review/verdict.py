"""Evaluate reports: whether a change may continue, and whether something changes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from spec.failure import FAILED, NOT_TRIED, Failure
from stackctl.review import report
from stackctl.review.plan import Plan, Step
from stackctl.review.report import Report

_NO_PACK = "no policy pack ran: preview with --policy-pack policies"
_NOT_TOLD = "which policy packs ran is not told: only the engine's events do (PULUMI_ENABLE_STREAMING_JSON_PREVIEW=true)"


def objections(plan: Plan) -> list[str]:
    """Return the reasons why a change may not continue; empty if it may.

    A preview without a policy pack may not continue.
    """
    problems = ["the preview failed"] if plan.errors else []
    mandatory = sum(violation.mandatory for violation in plan.violations)
    if mandatory:
        problems.append("1 mandatory violation" if mandatory == 1 else f"{mandatory} mandatory violations")
    if not plan.packs and not plan.errors:
        problems.append(_NOT_TOLD if plan.packs is None else _NO_PACK)
    return problems


def departures(approved: Report, now: Report) -> list[str]:
    """Return the differences between a preview and the approved one; empty without differences.

    They are resources with their action and changed properties. Values are left out: the program is the same, and names
    that the engine generates differ each time.
    """
    before, after = _intents(approved.plan), _intents(now.plan)
    return [
        *(f"was not approved: {one}" for one in sorted(after - before)),
        *(f"was approved, and would not happen: {one}" for one in sorted(before - after)),
    ]


def _intents(plan: Plan) -> set[str]:
    return {f"{step.action} {step.type} {step.name}{_properties(step)}" for step in plan.steps}


def _properties(step: Step) -> str:
    paths = sorted({*(change.path for change in step.changed), *step.replace_reasons})
    return f" ({', '.join(paths)})" if paths else ""


def changes_something(made: Report) -> bool:
    """Return whether the preview has a step, or has failed with unknown changes."""
    return bool(made.plan.steps or made.plan.errors)


class WrongPreview(Failure):
    """A preview of another stack than the named one."""

    exit_code = NOT_TRIED


def gate(reports: Sequence[Path]) -> int:
    """Print why changes may not continue; return FAILED if one may not.

    Otherwise return 0. Raises NoReport.
    """
    bad = {made.stack: problems for made in report.read_all(reports) if (problems := objections(made.plan))}
    for stack, problems in bad.items():
        print(f"{stack}: {'; '.join(problems)}", file=sys.stderr)
    return FAILED if bad else 0


def unchanged(reports: Sequence[Path]) -> int:
    """Print the stacks with changes or failures; return FAILED if there are some.

    Otherwise return 0. Raises NoReport.
    """
    differing = [made.stack for made in report.read_all(reports) if changes_something(made)]
    if differing:
        print(f"changes or failures: {', '.join(differing)}", file=sys.stderr)
    return FAILED if differing else 0


def same(approved: Path, now: Path) -> int:
    """Print the differences from the approved preview; return FAILED if there are some.

    Otherwise return 0. Raises NoReport, WrongPreview.
    """
    before, after = _only(approved), _only(now)
    if before.stack != after.stack:
        raise WrongPreview(f"{now} is of the stack {after.stack}, and what was approved of {before.stack}")
    differences = departures(before, after)
    for line in differences:
        print(f"{after.stack}: {line}", file=sys.stderr)
    return FAILED if differences else 0


def _only(path: Path) -> Report:
    found = report.read_all([path])
    if len(found) > 1:
        raise WrongPreview(f"{path} has the reports of {', '.join(made.stack for made in found)}; name the file of one")
    return found[0]
