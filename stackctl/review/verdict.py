"""Judge a report: whether a change may go on, and whether there is one."""

from __future__ import annotations

from stackctl.review.plan import Plan, Step
from stackctl.review.report import Report

_NO_PACK = "no policy pack ran: preview with --policy-pack policies"
_NOT_TOLD = "which policy packs ran is not told: only the engine's events do (PULUMI_ENABLE_STREAMING_JSON_PREVIEW=true)"


def objections(plan: Plan) -> list[str]:
    """Return why a change may not go on; empty: it may. Where no policy was asked, none is kept."""
    problems = ["the preview failed"] if plan.errors else []
    mandatory = sum(violation.mandatory for violation in plan.violations)
    if mandatory:
        problems.append("1 mandatory violation" if mandatory == 1 else f"{mandatory} mandatory violations")
    if not plan.packs and not plan.errors:
        problems.append(_NOT_TOLD if plan.packs is None else _NO_PACK)
    return problems


def departures(approved: Report, now: Report) -> list[str]:
    """Return what a preview would do that the approved one would not, and the other way round; empty: it is the same.

    Resources with their action and the properties that change. Values are left out: the same program asks for them, and
    names that the engine makes up are other ones each time.
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
    """Return whether the preview has a step, or has failed, so that it is not known."""
    return bool(made.plan.steps or made.plan.errors)
