"""The parts of the comment about one stack, in the order in which a reviewer wants them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from stackctl.review import consequences, refusals
from stackctl.review.markdown import block, code, prose, shortened
from stackctl.review.plan import WAITING_POLICY, Change, Plan, Step, Violation
from stackctl.review.report import (
    Candidate,
    Cost,
    CostLine,
    MeasuredCost,
    ModelChange,
    ModelMove,
    Quota,
    Range,
    Replay,
    ReplayedFleet,
    Report,
)

MOST_CHANGES = 12
"""Properties of one resource that are told."""
MOST_NAMES = 20
"""Names of one type that are told."""
LAST = 1000
"""The rank of what has nothing to say."""
_LONGEST_NAME = 160
_WAITS = re.compile(r"([\w-]+) \(([^()]*)\)")
_WAITING = re.compile(rf"{_WAITS.pattern}(?:, {_WAITS.pattern})*")
_CENTS_BELOW = 100
_ROLLED = "its pods are replaced, as what they are made from (`spec.template`) changes"
_CHART_NOT_LOADED = re.compile(
    r'looks like "([^"\s]{1,160})" is not a valid chart repository|failed to download "([^"\s]{1,160})"'
)
"""How the provider tells of a chart: of a registry, and of an archive, without a reason
(https://github.com/pulumi/pulumi-kubernetes/blob/v4.32.0/provider/pkg/provider/helm_release.go, `locateChart`)."""
PUBLIC_REGISTRIES = ("oci://docker.io/envoyproxy/", "oci://public.ecr.aws/karpenter/")
"""Where charts come from in a stack without `charts.registry`. The pins are not imported: a comment is rendered without
packages."""


@dataclass(frozen=True)
class Section:
    """A heading and its items, each of which stands for itself. `noun`: what one item is, for what is left out.

    `rank`: its place among the kinds of sections; the smaller, the less a reviewer can do without it.
    """

    title: str
    items: tuple[str, ...]
    noun: str
    head: str = ""
    rank: int = 0


def of(report: Report) -> list[Section]:
    """Return all sections that have something to say."""
    plan = report.plan
    replaced, deleted = _doing(plan.steps, "replace"), _doing(plan.steps, "delete")
    updated, created = _doing(plan.steps, "update"), _doing(plan.steps, "create")
    sections = [
        Section("The preview failed", tuple(block(error) for error in plan.errors), "errors", _chart_advice(plan.errors)),
        Section("Replaced: these are deleted and made anew", tuple(_replacements(replaced, updated)), "entries"),
        Section("Deleted", tuple(map(_deleted, deleted)), "resources"),
        Section("Models", _models(report), "models"),
        _policies(report),
        _cost(report.cost),
        _replay(report.replay),
        _quotas(report.quotas),
        Section("Changed in place", tuple(_updated(step, replaced) for step in updated), "resources"),
        Section("Created", tuple(_by_type(created)), "types"),
        Section("Warnings", tuple(map(_warning, plan.warnings)), "warnings"),
    ]
    ranked = [replace(section, rank=rank) for rank, section in enumerate(sections)]
    return [section for section in ranked if section.items or section.head]


def _chart_advice(errors: Sequence[str]) -> str:
    """Return what to do where the runner did not get charts from their sources; empty where it did."""
    sources = sorted({found[1] or found[2] for error in errors for found in _CHART_NOT_LOADED.finditer(error)})
    own = [source for source in sources if source.startswith("oci://") and not source.startswith(PUBLIC_REGISTRIES)]
    others = [source for source in sources if source not in own]
    advice = ""
    if others:
        advice += (
            f"The runner could not load charts from {_first(others)}, which a preview does. Behind a proxy it needs "
            "`HTTPS_PROXY`; without a way out, `charts.registry` names a registry of yours (docs/chart-registry.md). "
            "`python3 -m stackctl preflight`, run there, says why a repository or registry is silent.\n"
        )
    if own:
        advice += (
            f"Your own registry (`charts.registry`) did not give {_first(own)}: it lacks the chart in that version "
            "(docs/chart-registry.md fills it), or the runner is not logged in to it, or does not reach it. "
            f"`helm pull {own[0]} --version VERSION`, run there, says which.\n"
        )
    return advice


def _first(sources: Sequence[str]) -> str:
    return ", ".join(map(code, sources[:MOST_NAMES]))


def summary_row(report: Report) -> str:
    """Return the row of the stack in the table at the top."""
    cells = [code(_name(report.stack))]
    for action in ("replace", "delete", "update", "create"):
        count = len(_doing(report.plan.steps, action))
        cells.append(f"**{count}**" if count and action in ("replace", "delete") else str(count))
    cells.append(_policy_cell(report))
    cells.append(_cost_cell(report.cost))
    if report.plan.errors:
        cells[0] += " **failed**"
    return f"| {' | '.join(cells)} |"


SUMMARY_HEAD = (
    "| stack | replaced | deleted | changed | created | policies | US$ a month, expected |\n"
    "| --- | ---: | ---: | ---: | ---: | --- | ---: |"
)


def _doing(steps: Iterable[Step], action: str) -> list[Step]:
    return [step for step in steps if step.action == action]


def _name(text: str) -> str:
    return shortened(text, _LONGEST_NAME)


def _resource(step: Step) -> str:
    return f"{code(_name(step.name))} ({code(_name(step.type))})"


def _replacements(replaced: Sequence[Step], updated: Sequence[Step]) -> Iterator[str]:
    """Each replacement that has a cause of its own, and below it those that it brings about, by type; the widest first."""
    own = {step.key for step in replaced if step.caused_by is None}
    brought = {key: [step for step in replaced if step.caused_by == key] for key in own}
    causes = [step for step in replaced if step.caused_by not in own]
    for step in sorted(causes, key=lambda one: (-len(brought.get(one.key, ())), consequences.weight(one.type), one.key)):
        followers = brought.get(step.key, [])
        text = _replaced(step)
        yield f"{text}\n  - **{len(followers)} more because of that**, by type:" if followers else text
        yield from _brought(followers)
        yield from (f"  - **{_resource(other)}**: {why}" for other in updated if (why := refusals.beside(other, [step])))


def _brought(steps: Sequence[Step]) -> Iterator[str]:
    by_type: dict[str, list[Step]] = {}
    for step in steps:
        by_type.setdefault(step.type, []).append(step)
    for type_, found in sorted(by_type.items(), key=lambda item: (consequences.weight(item[0]), item[0])):
        reasons = sorted({code(_name(reason)) for step in found for reason in step.replace_reasons})
        why = f", because of {_listed(reasons[:MOST_CHANGES])}" if reasons else ""
        names, what = [step.name for step in found], f"{len(found)} {code(_name(type_))}"
        down = consequences.of("replace", type_)
        protected = [step.name for step in found if step.protected]
        yield "".join(
            [
                # Each of what goes down is named: who approves has to find the one that must not.
                f"    - **{what}: {_all_names(names)}**{why}" if down is not None else f"    - {what}{why}: {_names(names)}",
                f". **What goes down:** {down}" if down is not None else "",
                f". Protected, so that the engine refuses: {_names(protected)}" if protected else "",
            ]
        )


def _replaced(step: Step) -> str:
    reasons = [code(_name(reason)) for reason in step.replace_reasons[:MOST_CHANGES]]
    why = f" because {_listed(reasons)} cannot change in place" if reasons else ""
    down = consequences.of("replace", step.type)
    lines = [f"- **{_resource(step)} is replaced**{why}."]
    if down is not None:
        lines.append(f"  **What goes down:** {down}.")
    if step.protected:
        lines.append("  It is protected: the engine refuses until somebody unprotects it.")
    return "\n".join([*lines, *_changes(step.changed)])


def _deleted(step: Step) -> str:
    down = consequences.of("delete", step.type)
    text = f"- {_resource(step)}" + (f": {down}" if down is not None else "")
    return text + (". It is protected: the engine refuses until somebody unprotects it" if step.protected else "")


def _updated(step: Step, replaced: Sequence[Step]) -> str:
    why = refusals.of(step, replaced)
    said = f": **{why}**" if why else f": {_ROLLED}" if consequences.replaces_pods(step) else ""
    return "\n".join([f"- {_resource(step)}{said}", *_changes(step.changed)])


def _changes(changed: Sequence[Change]) -> list[str]:
    lines = [f"  - {code(_name(one.path))}: {code(one.before)} → {code(one.after)}" for one in changed[:MOST_CHANGES]]
    if len(changed) > MOST_CHANGES:
        lines.append(f"  - and {len(changed) - MOST_CHANGES} more properties")
    return lines


def _by_type(steps: Sequence[Step]) -> list[str]:
    by_type: dict[str, list[str]] = {}
    for step in steps:
        by_type.setdefault(step.type, []).append(step.name)
    lines = []
    for type_, names in sorted(by_type.items()):
        lines.append(f"- {len(names)} {code(_name(type_))}: {_names(names)}")
    return lines


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(code(_name(name)) for name in names[:MOST_NAMES]) + more


def _all_names(names: Sequence[str]) -> str:
    return ", ".join(code(_name(name)) for name in names)


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _models(report: Report) -> tuple[str, ...]:
    lines = []
    if report.release_before != report.release_after:
        lines.append(f"- release {_or_none(report.release_before)} → {_or_none(report.release_after)}")
    if report.candidate_before != report.candidate_after:
        lines.append(f"- candidate {_candidate(report.candidate_before)} → {_candidate(report.candidate_after)}")
    return (*lines, *(_model(change) for change in report.models or ()), *map(_move, report.moves))


def _or_none(release: str | None) -> str:
    return code(_name(release)) if release is not None else "none"


def _candidate(candidate: Candidate | None) -> str:
    if candidate is None:
        return "none"
    copies = f" and copies of {candidate.mirrored} %" if candidate.mirrored else ""
    return f"{code(_name(candidate.release))} with {candidate.percent} % of the requests{copies}"


def _model(change: ModelChange) -> str:
    name = code(_name(change.model))
    if change.before is None:
        return f"- {name} {change.after}: new"
    if change.after is None:
        return f"- {name} {change.before}: no longer served"
    return f"- {name} {change.before} → {change.after}"


def _move(move: ModelMove) -> str:
    before, after = (_listed([code(_name(fleet)) for fleet in fleets]) for fleets in (move.before, move.after))
    line = f"- {code(_name(move.model))} moves: served by {before}, then by {after}"
    if not move.torn:
        return line
    torn = _listed([code(_name(fleet)) for fleet in move.torn])
    return (
        f"{line}. **Requests are lost:** {torn} still has a part of them while its pods are replaced; give the model the "
        "weight 0 there in an update before this one (docs/fleets.md)"
    )


def _policies(report: Report) -> Section:
    violations = _violations(report)
    items = (*map(_violation, violations), *_deferred(report.plan.violations))
    packs = report.plan.packs
    if packs is None:
        head = "" if not items else "Violations:"
    elif not packs:
        head = "No policy pack ran."
    else:
        ran = _listed([f"{code(_name(name))} {prose(version)}".strip() for name, version in sorted(packs.items())])
        head = f"{ran}: {_verdict(report.plan, violations)}."
    return Section("Policies", items, "results of policies", head)


def _warning(text: str) -> str:
    """Return the first line, and those below it as a list of their own."""
    first, *others = [line for line in text.splitlines() if line.strip()] or [""]
    return "\n".join([f"- {prose(first)}", *(f"  - {prose(line)}" for line in others)])


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
            yield f"  - {code(_name(policy))} on {_all_names(resources)}"


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
        yield f"  - {code(_name(policy))}" + (f": {_all_names(places.split(', '))}" if places else "")


def _violation(violation: Violation) -> str:
    level = "**mandatory**" if violation.mandatory else "advisory"
    severity = f" ({prose(violation.severity)})" if violation.severity else ""
    where = f" on {code(_name(violation.resource))}" if violation.resource else ""
    return f"- {level} {code(_name(violation.policy))}{severity}{where}: {prose(violation.message)}"


def _violations_counted(violations: Sequence[Violation]) -> str:
    mandatory = sum(violation.mandatory for violation in violations)
    return f"{mandatory} mandatory, {len(violations) - mandatory} advisory"


def _policy_cell(report: Report) -> str:
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


def _cost_cell(cost: Cost | None) -> str:
    if cost is None:
        return "not known"
    return _moved(cost.before.expected if cost.before else None, cost.after.expected)


def _cost(cost: Cost | None) -> Section:
    if cost is None:
        return Section("Cost", (), "parts")
    compared = cost.before is not None
    rows = [_cost_row("**all**", CostLine("all", cost.before, cost.after), compared)]
    rows += [_cost_row(code(_name(line.name)), line, compared) for line in cost.lines]
    head = [
        f"US$ a month at list prices of {prose(cost.region)} as of {prose(cost.as_of)}: "
        "with as few nodes as there may be, as expected, with the most."
    ]
    if cost.per_million_after is not None:
        moved = _moved(cost.per_million_before, cost.per_million_after)
        head.append(f"A million inferences at the stack's expected rates: {moved} US$.")
    head += [_measured(one) for one in cost.measured]
    head += [f"{prose(note)}." for note in cost.notes]
    head += ["", "| | at least | expected | at most |", "| --- | ---: | ---: | ---: |"]
    return Section("Cost", tuple(rows), "parts", "\n".join(head))


def _measured(one: MeasuredCost) -> str:
    what = f"A million inferences of {code(_name(one.model))} at its measured rate, the node alone"
    if one.after is None:
        before = f" ({_dollars(one.before)} US$ before)" if one.before is not None else ""
        return f"{what}: not measured any more{before}."
    return f"{what}: {_moved(one.before, one.after)} US$."


def _cost_row(name: str, line: CostLine, compared: bool) -> str:
    cells = [
        _moved(_amount(line.before, size, compared), _amount(line.after, size, True) or Decimal(0))
        for size in Range.__dataclass_fields__
    ]
    return f"| {name} | {' | '.join(cells)} |"


def _amount(amounts: Range | None, size: str, zero: bool) -> Decimal | None:
    if amounts is None:
        return Decimal(0) if zero else None
    amount: Decimal = getattr(amounts, size)
    return amount


def _replay(replay: Replay | None) -> Section:
    if replay is None:
        return Section("Under load", (), "fleets")
    head = [
        f"The same requests ({code(_name(replay.trace))}) replayed through the scaling of before and after, in virtual "
        "time, on servers that are a model (docs/replay.md).",
        *(f"{prose(note)}." for note in replay.notes),
        "",
        "| | missed the SLO | GPU-hours | US$ of the nodes |",
        "| --- | ---: | ---: | ---: |",
    ]
    return Section("Under load", tuple(map(_replayed, replay.fleets)), "fleets", "\n".join(head))


def _replayed(fleet: ReplayedFleet) -> str:
    cells = []
    for field, form in (("missed", "{:.2%}"), ("gpu_hours", "{:,.1f}"), ("usd", "{:,.2f}")):
        both = [getattr(figures, field) if figures is not None else None for figures in (fleet.before, fleet.after)]
        before, after = (form.format(number) if number is not None else "–" for number in both)  # noqa: RUF001
        cells.append(after if before == after else f"{before} → {after}")
    return f"| {code(_name(fleet.name))} | {' | '.join(cells)} |"


def _moved(before: Decimal | None, after: Decimal) -> str:
    if before is None or _dollars(before) == _dollars(after):
        return _dollars(after)
    difference = after - before
    sign = "+" if difference > 0 else "−"  # noqa: RUF001 - a minus sign, for people
    return f"{_dollars(before)} → {_dollars(after)} ({sign}{_dollars(abs(difference))})"


def _dollars(amount: Decimal) -> str:
    return f"{amount:,.2f}" if abs(amount) < _CENTS_BELOW else f"{amount:,.0f}"


def _quotas(quotas: tuple[Quota, ...] | None) -> Section:
    if not quotas:
        return Section("Quotas", (), "quotas")
    head = (
        "What the account's service quotas have to be, at least, for the stack at its largest.\n\n"
        "| quota | code | needed |\n| --- | --- | ---: |"
    )
    return Section("Quotas", tuple(_quota_row(quota) for quota in quotas), "quotas", head)


def _quota_row(quota: Quota) -> str:
    moved = f"{quota.after}" if quota.before in (None, quota.after) else f"{quota.before} → **{quota.after}**"
    return f"| {prose(quota.name)} | {code(_name(quota.code))} | {moved} {prose(quota.unit)} |"
