"""Collect a report's models, cost and quotas from two versions of the stack file.

The engine's plan has no costs, and it has only the current configuration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

from spec import reading
from spec.capacity import pods_per_node
from spec.names import TRITON_RELEASE
from spec.reading import Unreadable
from spec.settings import GpuPool, Settings, SettingsError
from spec.settings.blue_green import is_blue_green
from spec.settings.fleets import Fleet
from spec.settings.nodes import CpuPool
from stackctl.cost import prices
from stackctl.cost.estimate import Estimate, estimate
from stackctl.cost.throughput import EvidenceError
from stackctl.cost.usage import Amounts
from stackctl.quotas import needed_quotas
from stackctl.review.plan import Plan
from stackctl.review.report import (
    Candidate,
    Cost,
    CostLine,
    Figures,
    MeasuredCost,
    ModelChange,
    ModelMove,
    Quota,
    Range,
    Replay,
    ReplayedFleet,
    Report,
)
from stackctl.stack_settings import NoSuchRevision, StackUnreadable, settings_at, settings_of


def report(
    stack: str, plan: Plan, against: str | None = None, today: date | None = None, replays: tuple[Replay, ...] = ()
) -> Report:
    """Return the report of a stack in the working tree.

    If the current program rejects the stack file of `against`, the report has a warning instead of a comparison. Without
    a price table for the region, the cost is unknown. Raises NoSuchStack, SettingsError, NoSuchRevision.
    """
    try:
        now = settings_of(stack)
    except SettingsError:
        if not plan.errors:
            raise
        return Report(stack, plan, base=against)  # the preview failed for the same reason
    warnings = list(plan.warnings)
    then = None
    if against is not None:
        try:
            then = settings_at(against, stack)
        except NoSuchRevision:
            raise
        except StackUnreadable as error:
            warnings.append(f"models, cost and quotas are not compared: {error}")
    if then is not None:
        warnings += waits_for_nodes(now, then)
    cost, problem = _cost(now, then, today or date.today())
    if problem is not None:
        warnings.append(problem)
    told = Plan(plan.steps, plan.counts, plan.violations, plan.packs, plan.errors, tuple(warnings))
    return Report(
        stack,
        told,
        base=against,
        models=_models(now, then) if then is not None else None,
        release_before=_release(then) if then is not None else _release(now),
        release_after=_release(now),
        cost=cost,
        quotas=_quotas(now, then),
        moves=_moves(now, then) if then is not None else (),
        replays=replays,
        candidate_before=_candidate(then) if then is not None else _candidate(now),
        candidate_after=_candidate(now),
    )


def _release(settings: Settings) -> str | None:
    return settings.models.release.id if settings.models.release is not None else None


def _candidate(settings: Settings) -> Candidate | None:
    tried = settings.models.candidate
    return Candidate(tried.release.id, tried.percent, tried.mirror_percent) if tried is not None else None


def _models(now: Settings, then: Settings) -> tuple[ModelChange, ...]:
    before, after = _versions(then), _versions(now)
    return tuple(
        ModelChange(model, before.get(model), after.get(model))
        for model in sorted(before.keys() | after.keys())
        if before.get(model) != after.get(model)
    )


def _moves(now: Settings, then: Settings) -> tuple[ModelMove, ...]:
    """Return the models that move to other fleets or get other weights.

    Models that are served only before or only after are left out. A candidate takes a part of each of its models; the
    line about the candidate reports that.
    """
    if is_blue_green(now) and is_blue_green(then):
        return ()
    before, after = _parts(then), _parts(now)
    return tuple(
        ModelMove(
            model,
            _fleets(before[model]),
            _fleets(after[model]),
            # If a whole fleet is deleted, its pods terminate after the routes have changed.
            tuple(
                name or TRITON_RELEASE
                for name, weight in before[model].items()
                if weight and name not in after[model] and any(fleet.name == name for fleet in now.each_fleet)
            ),
        )
        for model in sorted(before.keys() & after.keys())
        if before[model] != after[model]
    )


def _parts(settings: Settings) -> dict[str, dict[str | None, int]]:
    """Return the weights of the fleets that serve each model of the release."""
    return {
        model: {fleet.name: fleet.weight(model) for fleet in settings.each_fleet if fleet.serves(model)}
        for model in _versions(settings)
    }


def _fleets(parts: Mapping[str | None, int]) -> tuple[str, ...]:
    return tuple((name or TRITON_RELEASE) + ("" if weight == 1 else f" (weight {weight})") for name, weight in parts.items())


def _versions(settings: Settings) -> Mapping[str, int]:
    return settings.models.release.models if settings.models.release is not None else {}


def _cost(now: Settings, then: Settings | None, today: date) -> tuple[Cost | None, str | None]:
    """Return the cost, or the reason why it is unknown."""
    try:
        after = estimate(now, prices.load(now.region), today)
        before = estimate(then, prices.load(then.region), today) if then is not None else None
    except (prices.PriceError, EvidenceError) as error:
        return None, f"the cost is not known: {error}"
    for made in (after, before):
        if made is not None and (made.as_of is None or made.total.unknown):
            return None, f"the cost is not known: {made.notes[0]}"
    old, new = (before.parts if before is not None else {}), after.parts
    lines = tuple(
        CostLine(part, _range(old[part]) if part in old else None, _range(new[part]) if part in new else None)
        for part in dict.fromkeys((*new, *old))
    )
    found = Cost(
        region=after.region,
        as_of=str(after.as_of),
        before=_range(before.total) if before is not None else None,
        after=_range(after.total),
        lines=lines,
        per_million_before=before.per_million if before is not None else None,
        per_million_after=after.per_million,
        measured=_measured(after, before),
        notes=_notes(after, before),
    )
    return found, None


def _measured(after: Estimate, before: Estimate | None) -> tuple[MeasuredCost, ...]:
    old, new = before.per_million_measured if before is not None else {}, after.per_million_measured
    return tuple(MeasuredCost(model, old.get(model), new.get(model)) for model in sorted({*old, *new}))


def _notes(after: Estimate, before: Estimate | None) -> tuple[str, ...]:
    """Return the current notes, then the notes that held only before.

    For example, a throughput may have been measured since.
    """
    gone = [note for note in before.notes if note not in after.notes] if before is not None else []
    return (*after.notes, *(f"before: {note}" for note in gone))


def _range(amounts: Amounts) -> Range:
    return Range(amounts.min, amounts.expected, amounts.max)


def _quotas(now: Settings, then: Settings | None) -> tuple[Quota, ...]:
    before = {need.quota: need.at_most for need in needed_quotas(then)} if then is not None else None
    return tuple(
        Quota(
            name=need.quota.name,
            code=f"{need.quota.service}/{need.quota.code}",
            unit=need.quota.unit,
            before=before.get(need.quota, 0) if before is not None else None,
            after=need.at_most,
        )
        for need in needed_quotas(now)
    )


_Fleets = Sequence[Fleet[Settings]]


def waits_for_nodes(now: Settings, then: Settings) -> Iterator[str]:
    """Warn about each node group that cannot hold old and new pods at once.

    The warning names the waiting fleets and a sufficient node count. Remaining and new fleets count with their minimum
    pods, because `up` waits for those.
    """
    old, new = _released(then), _released(now)
    before, after = ({fleet.release for fleet in fleets} for fleets in (old, new))
    groups: list[GpuPool | CpuPool] = [*now.gpu.pools, *([now.nodes.cpu] if now.nodes.cpu is not None else [])]
    for group in groups:
        going = [fleet for fleet in old if fleet.release not in after and _on(fleet, group)]
        coming = [fleet for fleet in new if fleet.release not in before and _on(fleet, group)]
        staying = [fleet for fleet in old if fleet.release in after and _on(fleet, group)]
        fixed = group.desired if isinstance(group, GpuPool) and now.node_autoscaler == "none" else None
        room = group.max if fixed is None else fixed
        needed = ceil(sum(_nodes(fleet, group, _most(fleet.stack)) for fleet in going) + _fewest(group, coming, staying))
        if not going or not coming or needed <= room:
            continue
        key = f"gpu.pools ({group.name})" if isinstance(group, GpuPool) else "nodes.cpu"
        left = room - _fewest(group, coming, staying)
        yield (
            f"{key}: `pulumi up` starts {_pods(coming, fewest=True)} before it ends {_pods(going)}, and {room} nodes do not "
            f"hold both: it waits for nodes as long as {_held(going, group, left)}; give "
            f"{'max' if fixed is None else 'desired'} {needed} for this update, and {room} again after it (docs/fleets.md)"
        )


def _released(settings: Settings) -> _Fleets:
    return settings.each_fleet if settings.models.release is not None else ()


def _on(fleet: Fleet[Settings], group: GpuPool | CpuPool) -> bool:
    return fleet.stack.triton_nodes.name == group.name


def _most(settings: Settings) -> int:
    return settings.autoscaling.max_replicas if settings.autoscaling is not None else settings.fewest_pods


def _nodes(fleet: Fleet[Settings], group: GpuPool | CpuPool, pods: int) -> Fraction:
    """Return the number of nodes that pods of a fleet fill. A fraction shares its node with other pods."""
    return Fraction(pods, pods_per_node(fleet.stack, group))


def _fewest(group: GpuPool | CpuPool, *fleets: _Fleets) -> Fraction:
    found = [_nodes(fleet, group, fleet.stack.fewest_pods) for some in fleets for fleet in some]
    return sum(found, start=Fraction())


def _pods(fleets: _Fleets, *, fewest: bool = False) -> str:
    """Return fleets with their pods: `2 to 4 pods of triton`, `2 pods of triton-a and 1 of triton-b`."""
    counted = []
    for fleet in fleets:
        least, most = fleet.stack.fewest_pods, _most(fleet.stack)
        most = least if fewest else most
        number = f"{least}" if least == most else f"{least} to {most}"
        counted.append(f"{number} pod{'' if most == 1 else 's'} of {fleet.release}")
    return " and ".join(counted)


def _held(going: _Fleets, group: GpuPool | CpuPool, left: Fraction) -> str:
    """Return the number of old pods above which new pods lack nodes, in words."""
    names = " and ".join(fleet.release for fleet in going)
    there = f"{names} {'has' if len(going) == 1 else 'have'}"
    most = int(max(left, Fraction()) * min(pods_per_node(fleet.stack, group) for fleet in going))
    return f"{there} more than {most} pod{'' if most == 1 else 's'}" if most else f"{there} any pod"


_NUMBER = (int, float)
_KEYS = ("missedShare", "gpuHours", "usd", "longestShortageSeconds", "turns")


def read_replay(file: Path, stack: str) -> Replay | None:
    """Return the fleets for which a trace has another result than before.

    Return None if the file has no result from before. Raises Unreadable.
    """
    document = reading.json_file(file)
    reading.checked(document, {"stack": str, "trace": str, "after": {str: dict}, "before": {str: dict}, "notes": [str]}, "")
    if document.get("stack") != stack:
        raise Unreadable(f"it is of the stack {document.get('stack')}, not of {stack}", source=file)
    before, after = document.get("before"), document.get("after") or {}
    if before is None:
        return None
    fleets = tuple(
        ReplayedFleet(name, _figures(before.get(name), file), _figures(after.get(name), file))
        for name in dict.fromkeys((*after, *before))
    )
    changed = tuple(fleet for fleet in fleets if fleet.before != fleet.after)
    return Replay(str(document.get("trace")), changed, tuple(document.get("notes") or ()))


def _figures(fleet: dict[str, Any] | None, file: Path) -> Figures | None:
    if fleet is None:
        return None
    missed, hours, usd, shortage, turns = map(fleet.get, _KEYS)
    if not isinstance(missed, _NUMBER) or not isinstance(hours, _NUMBER) or not isinstance(usd, (*_NUMBER, type(None))):
        raise _incomplete(file)
    if type(shortage) is not int or type(turns) is not int:
        raise _incomplete(file)
    return Figures(Decimal(str(missed)), Decimal(str(hours)), None if usd is None else Decimal(str(usd)), shortage, turns)


def _incomplete(file: Path) -> Unreadable:
    return Unreadable(f"a fleet of it has not all of {', '.join(_KEYS)}; `twin replay --json` prints them", source=file)
