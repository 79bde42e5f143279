"""Write the sections of the comment about one stack, and its verdict.

The most important section comes first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from stackctl.review import consequences, figures
from stackctl.review.markdown import Section, all_names, block, code, listed, prose, short
from stackctl.review.plan import WAITING_POLICY, Change, Plan, Step, Violation
from stackctl.review.report import Candidate, ModelChange, ModelMove, Report

MOST_CHANGES = 12
"""Most properties of one resource in the comment."""
MOST_NAMES = 20
"""Most names of one type in the comment."""
CLUSTER = "aws:eks/cluster:Cluster"
LAST = 1000
"""The rank of a stack without sections."""
_ROLLED = "its pods are replaced, because `spec.template` changes"
_CHART_NOT_LOADED = re.compile(
    r'looks like "([^"\s]{1,160})" is not a valid chart repository|failed to download "([^"\s]{1,160})"'
)
"""The provider's errors for a chart that it cannot load, from a repository or an archive.

The error for an archive has no reason
(https://github.com/pulumi/pulumi-kubernetes/blob/v4.32.0/provider/pkg/provider/helm_release.go, `locateChart`).
"""
PUBLIC_REGISTRIES = ("oci://docker.io/envoyproxy/", "oci://public.ecr.aws/karpenter/")
"""Chart registries of a stack without `charts.registry`.

The pins are not imported, because a comment is rendered without packages.
"""


def of(report: Report) -> list[Section]:
    """Return all sections that have content."""
    plan = report.plan
    replaced, deleted = _doing(plan.steps, "replace"), _doing(plan.steps, "delete")
    updated, created = _doing(plan.steps, "update"), _doing(plan.steps, "create")
    sections = [
        Section("The preview failed", tuple(block(error) for error in plan.errors), "errors", _chart_advice(plan.errors)),
        Section("Replaced: deleted and created again", tuple(_replacements(replaced, updated)), "entries"),
        Section("Deleted", tuple(map(_deleted, deleted)), "resources"),
        Section("Models", _models(report), "models"),
        policies(report),
        figures.cost(report.cost),
        figures.replays(report.replays),
        figures.quotas(report.quotas),
        Section("Changed in place", tuple(_updated(step, replaced) for step in updated), "resources"),
        Section("Created", tuple(_by_type(created)), "types", _before_the_cluster(created)),
        Section("Warnings", tuple(map(_warning, plan.warnings)), "warnings"),
    ]
    ranked = [replace(section, rank=rank) for rank, section in enumerate(sections)]
    return [section for section in ranked if section.items or section.head]


def _chart_advice(errors: Sequence[str]) -> str:
    """Return advice if the runner could not load charts; otherwise empty."""
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


def verdict(report: Report) -> str:
    """Return the stack's line at the top: worst replacement, deletions, mandatory violations and cost."""
    plan = report.plan
    replaced, deleted = _doing(plan.steps, "replace"), _doing(plan.steps, "delete")
    parts = ["**the preview failed**"] if plan.errors else []
    if replaced:
        worst = min(replaced, key=lambda step: (consequences.weight(step.type), step.key))
        effect = consequences.of("replace", worst.type)
        more = f" and {len(replaced) - 1} more" if len(replaced) > 1 else ""
        parts.append(f"**{code(short(worst.name))} is replaced**{f' ({effect})' if effect else ''}{more}")
    if deleted:
        parts.append(f"**{len(deleted)} deleted**")
    mandatory = sum(violation.mandatory for violation in _violations(report))
    if mandatory:
        parts.append(f"**{mandatory} mandatory policy violation{'s' if mandatory > 1 else ''}**")
    if not parts:
        count = len(plan.steps)
        parts.append(f"{count} change{'s' if count > 1 else ''}, no replacement" if count else "no resource changes")
    return f"- {code(short(report.stack))}: {'; '.join([*parts, *figures.cost_moves(report.cost)])}."


def summary_row(report: Report) -> str:
    """Return the row of the stack in the table at the top."""
    cells = [code(short(report.stack))]
    for action in ("replace", "delete", "update", "create"):
        count = len(_doing(report.plan.steps, action))
        cells.append(f"**{count}**" if count and action in ("replace", "delete") else str(count))
    cells.append(policy_cell(report))
    cells.append(figures.cost_cell(report.cost))
    if report.plan.errors:
        cells[0] += " **failed**"
    return f"| {' | '.join(cells)} |"


SUMMARY_HEAD = (
    "| stack | replaced | deleted | changed | created | policies | US$ a month, expected |\n"
    "| --- | ---: | ---: | ---: | ---: | --- | ---: |"
)


def _doing(steps: Iterable[Step], action: str) -> list[Step]:
    return [step for step in steps if step.action == action]


def _resource(step: Step) -> str:
    return f"{code(short(step.name))} ({code(short(step.type))})"


def _replacements(replaced: Sequence[Step], updated: Sequence[Step]) -> Iterator[str]:
    """Yield each replacement with its own cause, then the replacements it causes, by type.

    The replacement that causes the most others comes first.
    """
    own = {step.key for step in replaced if step.caused_by is None}
    brought = {key: [step for step in replaced if step.caused_by == key] for key in own}
    causes = [step for step in replaced if step.caused_by not in own]
    for step in sorted(causes, key=lambda one: (-len(brought.get(one.key, ())), consequences.weight(one.type), one.key)):
        followers = brought.get(step.key, [])
        text = _replaced(step)
        yield f"{text}\n  - **{len(followers)} more because of that**, by type:" if followers else text
        yield from _brought(followers)
        refused = ((other, consequences.refused_beside(other, [step])) for other in updated)
        yield from (f"  - **{_resource(other)}**: {why}" for other, why in refused if why)


def _brought(steps: Sequence[Step]) -> Iterator[str]:
    by_type: dict[str, list[Step]] = {}
    for step in steps:
        by_type.setdefault(step.type, []).append(step)
    for type_, found in sorted(by_type.items(), key=lambda item: (consequences.weight(item[0]), item[0])):
        reasons = sorted({code(short(reason)) for step in found for reason in step.replace_reasons})
        why = f", because of {listed(reasons[:MOST_CHANGES])}" if reasons else ""
        names, what = [step.name for step in found], f"{len(found)} {code(short(type_))}"
        down = consequences.of("replace", type_)
        protected = [step.name for step in found if step.protected]
        yield "".join(
            [
                # All affected resources are named, because the reviewer must see a resource that has to stay.
                f"    - **{what}: {all_names(names)}**{why}" if down is not None else f"    - {what}{why}: {_names(names)}",
                f". **Effect:** {down}" if down is not None else "",
                f". Protected, so that the engine refuses: {_names(protected)}" if protected else "",
            ]
        )


def _replaced(step: Step) -> str:
    reasons = [code(short(reason)) for reason in step.replace_reasons[:MOST_CHANGES]]
    why = f" because {listed(reasons)} cannot change in place" if reasons else ""
    down = consequences.of("replace", step.type)
    lines = [f"- **{_resource(step)} is replaced**{why}."]
    if down is not None:
        lines.append(f"  **Effect:** {down}.")
    if step.protected:
        lines.append("  It is protected: the engine refuses until somebody unprotects it.")
    return "\n".join([*lines, *_changes(step.changed)])


def _deleted(step: Step) -> str:
    down = consequences.of("delete", step.type)
    text = f"- {_resource(step)}" + (f": {down}" if down is not None else "")
    return text + (". It is protected: the engine refuses until somebody unprotects it" if step.protected else "")


def _updated(step: Step, replaced: Sequence[Step]) -> str:
    why = consequences.refusal(step, replaced)
    said = f": **{why}**" if why else f": {_ROLLED}" if consequences.replaces_pods(step) else ""
    return "\n".join([f"- {_resource(step)}{said}", *_changes(step.changed)])


def _changes(changed: Sequence[Change]) -> list[str]:
    lines = [f"  - {code(short(one.path))}: {code(one.before)} → {code(one.after)}" for one in changed[:MOST_CHANGES]]
    if len(changed) > MOST_CHANGES:
        lines.append(f"  - and {len(changed) - MOST_CHANGES} more properties")
    return lines


def _by_type(steps: Sequence[Step]) -> list[str]:
    by_type: dict[str, list[str]] = {}
    for step in steps:
        by_type.setdefault(step.type, []).append(step.name)
    lines = []
    for type_, names in sorted(by_type.items()):
        lines.append(f"- {len(names)} {code(short(type_))}: {_names(names)}")
    return lines


def _before_the_cluster(created: Sequence[Step]) -> str:
    """Return the note that a preview on AWS without a cluster shows fewer resources.

    Empty if the cluster exists.
    """
    if not any(step.type == CLUSTER for step in created):
        return ""
    return (
        "On AWS the first preview of a stack shows fewer resources: before the cluster exists, none of our charts' objects "
        "(docs/policies.md). `python3 -m twin preview STACK --first` shows the same."
    )


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(code(short(name)) for name in names[:MOST_NAMES]) + more


def _models(report: Report) -> tuple[str, ...]:
    lines = []
    if report.release_before != report.release_after:
        lines.append(f"- release {_or_none(report.release_before)} → {_or_none(report.release_after)}")
    if report.candidate_before != report.candidate_after:
        lines.append(f"- candidate {_candidate(report.candidate_before)} → {_candidate(report.candidate_after)}")
    return (*lines, *(_model(change) for change in report.models or ()), *map(_move, report.moves))


def _or_none(release: str | None) -> str:
    return code(short(release)) if release is not None else "none"


def _candidate(candidate: Candidate | None) -> str:
    if candidate is None:
        return "none"
    copies = f" and copies of {candidate.mirrored} %" if candidate.mirrored else ""
    return f"{code(short(candidate.release))} with {candidate.percent} % of the requests{copies}"


def _model(change: ModelChange) -> str:
    name = code(short(change.model))
    if change.before is None:
        return f"- {name} {change.after}: new"
    if change.after is None:
        return f"- {name} {change.before}: no longer served"
    return f"- {name} {change.before} → {change.after}"


def _move(move: ModelMove) -> str:
    before, after = (listed([code(short(fleet)) for fleet in fleets]) for fleets in (move.before, move.after))
    line = f"- {code(short(move.model))} moves: served by {before}, then by {after}"
    if not move.torn:
        return line
    torn = listed([code(short(fleet)) for fleet in move.torn])
    return (
        f"{line}. **Requests are lost:** {torn} still has a part of them while its pods are replaced; give the model the "
        "weight 0 there in an update before this one (docs/fleets.md)"
    )


def _warning(text: str) -> str:
    """Return a warning: its first line as an item, the others nested."""
    first, *others = [line for line in text.splitlines() if line.strip()] or [""]
    return "\n".join([f"- {prose(first)}", *(f"  - {prose(line)}" for line in others)])


_WAITS = re.compile(r"([\w-]+) \(([^()]*)\)")
_WAITING = re.compile(rf"{_WAITS.pattern}(?:, {_WAITS.pattern})*")


def policies(report: Report) -> Section:
    """Return the section with the packs that ran and their violations."""
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
        return "not evaluated: the preview failed before the first resource"
    found = _violations_counted(violations) if violations else "no violation"
    return found if not plan.errors else f"{found}; the preview failed before everything was checked"


def _deferred(violations: Sequence[Violation]) -> Iterator[str]:
    """Yield the number of checks that run later, then each policy with its resources."""
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
    """Yield our pack's summary of deferred checks: `… : policy (place, place), policy (place)`."""
    # The engine prints the policy's description on a separate line before the policy's message.
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
    """Return the policy cell of the table at the top."""
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
