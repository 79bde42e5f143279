"""Judge a report: whether a change may go on, and whether there is one."""

from __future__ import annotations

from stackctl.review.plan import Plan
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


def changes_something(made: Report) -> bool:
    """Return whether the preview has a step, or has failed, so that it is not known."""
    return bool(made.plan.steps or made.plan.errors)
