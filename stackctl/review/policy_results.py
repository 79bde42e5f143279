"""Results of policies for a stack: violations, and what they judge in the update."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from stackctl.review.markdown import code, prose
from stackctl.review.plan import WAITING_POLICY, Plan, Violation
from stackctl.review.report import Report
from stackctl.review.section import Section, all_names, listed, short

_WAITS = re.compile(r"([\w-]+) \(([^()]*)\)")
_WAITING = re.compile(rf"{_WAITS.pattern}(?:, {_WAITS.pattern})*")


def policies(report: Report) -> Section:
    """Return which packs ran, and what they found."""
    violations = _violations(report)
    items = (*map(_violation, violations), *_deferred(report.plan.violations))
    packs = report.plan.packs
    if packs is None:
        head = "" if not items else "Violations:"
    elif not packs:
        head = "No policy pack ran."
    else:
        ran = listed([f"{code(short(name))} {prose(version)}".strip() for name, version in sorted(packs.items())])
        head = f"{ran}: {_verdict(report.plan, violations)}."
    return Section("Policies", items, "results of policies", head)


def _violations(report: Report) -> list[Violation]:
    return [violation for violation in report.plan.violations if not violation.deferred]


def _verdict(plan: Plan, violations: Sequence[Violation]) -> str:
    if plan.ended_before_resources and not violations:
        return "nothing was judged, as the preview failed before the first resource"
    found = _violations_counted(violations) if violations else "no violation"
    return found if not plan.errors else f"{found}; the preview failed before everything was checked"


def _deferred(violations: Sequence[Violation]) -> Iterator[str]:
    """Yield what policies judge later: how many checks that are, and below it each policy with all that it waits for."""
    for one in violations:
        if one.deferred and one.policy == WAITING_POLICY:
            yield from _waiting(one.message)
    by_policy: dict[str, list[str]] = {}
    for one in violations:
        if one.deferred and one.policy != WAITING_POLICY:
            by_policy.setdefault(one.policy, []).append(one.resource)
    if by_policy:
        count = sum(map(len, by_policy.values()))
        many = "1 check is" if count == 1 else f"{count} checks are"
        yield f"- {many} made in the update, when the values are known:"
        for policy, resources in sorted(by_policy.items()):
            yield f"  - {code(short(policy))} on {all_names(resources)}"


def _waiting(message: str) -> Iterator[str]:
    """Yield what our pack says once for all of its policies: `… : policy (place, place), policy (place)`."""
    # The engine puts the policy's description on a line of its own before what the policy says.
    said = (message.splitlines() or ["Some checks wait for values; which ones is not said"])[-1]
    told, _, listed = said.partition(": ")
    if not _WAITING.fullmatch(listed):
        yield f"- {prose(said)}"
        return
    yield f"- {prose(told)}:"
    for policy, places in _WAITS.findall(listed):
        yield f"  - {code(short(policy))}" + (f": {all_names(places.split(', '))}" if places else "")


def _violation(violation: Violation) -> str:
    level = "**mandatory**" if violation.mandatory else "advisory"
    severity = f" ({prose(violation.severity)})" if violation.severity else ""
    where = f" on {code(short(violation.resource))}" if violation.resource else ""
    return f"- {level} {code(short(violation.policy))}{severity}{where}: {prose(violation.message)}"


def _violations_counted(violations: Sequence[Violation]) -> str:
    mandatory = sum(violation.mandatory for violation in violations)
    return f"{mandatory} mandatory, {len(violations) - mandatory} advisory"


def policy_cell(report: Report) -> str:
    """Return the cell of the table at the top."""
    plan = report.plan
    violations = _violations(report)
    if violations:
        counted = _violations_counted(violations)
        told = f"**{counted}**" if any(violation.mandatory for violation in violations) else counted
        return f"{told}, not all checked" if plan.errors else told
    if not plan.packs:
        return "not checked"
    if not plan.errors:
        return "kept"
    return "nothing checked" if plan.ended_before_resources else "not all checked"
