"""Run `stackctl plan`: print the cheapest fleets for a stack, as YAML for its file."""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from console.terminal import output, print_json, table
from spec import reading
from spec.settings import Settings, SettingsError, load, read_config
from spec.stack_file import decoded, full_name
from spec.stack_names import file_of
from stackctl.cost import prices
from stackctl.cost.estimate import with_own_prices
from stackctl.cost.prices import PriceTable
from stackctl.plan import stack as planned_stack
from stackctl.plan.search import Found, PlannedFleet, cheapest
from stackctl.plan.stack import NoPlan, Wants, dollars

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_NOT_PLAIN = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""Words that YAML 1.1 does not read as text."""
_SECTION = "triton-eks:fleets"


@dataclass(frozen=True)
class Planned:
    """The plan of a stack.

    `entries`: the entries of `fleets`, in the order of `found.fleets`. `changes`: other changes that the stack file
    needs.
    """

    found: Found
    wants: Wants
    entries: tuple[dict[str, Any], ...]
    changes: tuple[str, ...]
    notes: tuple[str, ...]


def plan(name: str, rates: Sequence[str], *, as_json: bool) -> None:
    """Print the cheapest fleets of a stack. Raises Failure."""
    file = file_of(name, Path())
    config = read_config(reading.file(file), str(file))
    settings = load(config, name)
    table_of_prices = with_own_prices(settings, prices.load(settings.region), date.today())
    made = of(settings, config, rates, table_of_prices)
    if as_json:
        print_json(_document(made, table_of_prices))
        return
    console = output(soft_wrap=True)
    console.print(_table(made))
    for line in _lines(settings, made, table_of_prices):
        console.print(line, markup=False, highlight=False)


def of(settings: Settings, config: Mapping[str, Any], rates: Sequence[str], price_table: PriceTable) -> Planned:
    """Return the plan of a stack. `config` is its file's content, in the form for `load`.

    Raises NoPlan, EvidenceError.
    """
    scaled = settings.pod_autoscaler != "none"
    given, known = planned_stack.given_rates(rates, settings), planned_stack.measured(settings)
    wants = planned_stack.wants(settings, {**known, **given}, price_table, peak=not scaled)
    fits = functools.cache(functools.partial(planned_stack.fit, settings, wants.shapes))
    found = cheapest(wants.groups, wants.pools, wants.fewest, fits)
    if found is None:
        alone = [group for group in wants.groups if not any(fits(pool, frozenset(group.models)) for pool in group.pods)]
        names = ", ".join(" with ".join(group.models) for group in alone)
        raise NoPlan(f"no pod has room in the memory of its GPUs for {names}; add a pool with larger GPUs")
    peaks = planned_stack.wants(settings, {**known, **given}, price_table, peak=True)
    sections = {full_name(key): value for key, value in config.items()}
    bounds = decoded(sections.get("triton-eks:autoscaling")) or {}
    entries = tuple(_entries(found.fleets, wants, peaks, bounds if scaled else None))
    notes = [
        "a model's load is its rate divided by that of a pod which serves it alone, and loads are added: models that share "
        "a pod are assumed to share its time evenly"
    ]
    if set(known) - set(given):
        notes.append(
            "measured rates are those of `modelctl tune`, where the stack serves the models today: "
            + ", ".join(f"{model}@{pool}={known[model, pool]:g}" for model, pool in sorted(set(known) - set(given)))
        )
    notes += [why for place, why in planned_stack.not_of_gpus(settings).items() if place not in given]
    if wants.unknown:
        notes.append(f"places without a known rate are not considered: {', '.join(wants.unknown)} (--rate)")
    return Planned(found, wants, entries, tuple(_changes(settings, sections, entries)), tuple(notes))


def _entries(
    fleets: Sequence[PlannedFleet], wants: Wants, peaks: Wants, bounds: Mapping[str, Any] | None
) -> Iterator[dict[str, Any]]:
    """Yield the entry of each fleet. `bounds`: the stack's section `autoscaling`; None without autoscaling."""
    peak_groups = {group.models: group for group in peaks.groups}
    counted, seen = Counter(fleet.pool.name for fleet in fleets), Counter[str]()
    for fleet in fleets:
        pool = fleet.pool.name
        seen[pool] += 1
        name = pool if counted[pool] == 1 else f"{pool}-{seen[pool]}"
        size: dict[str, Any] = {"replicas": fleet.replicas(wants.fewest)}
        if bounds is not None:
            at_peak = PlannedFleet(fleet.pool, tuple(peak_groups[group.models] for group in fleet.groups))
            targets = {model: target for model, target in bounds.get("targets", {}).items() if model in fleet.models}
            own = {key: value for key, value in bounds.items() if key != "targets"} | (
                {"targets": targets} if targets else {}
            )
            least, most = fleet.replicas(wants.fewest), at_peak.replicas(wants.fewest)
            size = {"autoscaling": {**own, "minReplicas": least, "maxReplicas": most}}
        yield planned_stack.keys(name, fleet.models, wants.shapes[pool], **size)


def _changes(settings: Settings, sections: Mapping[str, Any], entries: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the errors of the stack file with these fleets. `sections` has the full names of its keys."""
    try:
        load({**sections, _SECTION: list(entries)}, settings.stack)
    except SettingsError as error:
        for problem in error.problems:
            yield f"{problem.path}: {problem.message}"


def _table(made: Planned) -> Any:
    rows = table("fleet", "models", "pods", "nodes", "US$ a month")
    for fleet, entry in zip(made.found.fleets, made.entries, strict=True):
        usd = dollars(fleet.usd(made.wants.fewest))
        pods, nodes = fleet.replicas(made.wants.fewest), fleet.nodes(made.wants.fewest)
        rows.add_row(entry["name"], ", ".join(fleet.models), str(pods), str(nodes), f"{usd:,.2f}")
    return rows


def _lines(settings: Settings, made: Planned, price_table: PriceTable) -> Iterator[str]:
    found = made.found
    rates = "expected" if settings.pod_autoscaler != "none" else "peak"
    yield f"nodes at the {rates} rates: {dollars(found.usd):,.2f} US$ a month ({price_table.source})"
    yield (
        f"bound: no fleets with each model on one of them cost less than {dollars(found.bound):,.2f} US$, "
        f"which is {_gap(found):.0%} less"
    )
    if found.proven:
        yield "no other fleets with each model on one of them cost less: all were looked at"
    else:
        yield "the search was ended before all fleets were looked at: there may be cheaper ones, down to the bound"
    yield ""
    yield f"  {_SECTION}:"
    for entry in made.entries:
        yield f"    - {flow(entry)}"
    yield ""
    if made.changes:
        yield "the stack file needs with it:"
        yield from (f"  {line}" for line in made.changes)
    yield from made.notes


def _gap(found: Found) -> float:
    return 1 - found.bound / found.usd if found.usd else 0.0


def flow(value: object) -> str:
    """Return a value as YAML in one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow(key)}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(flow, value))}]"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _NOT_PLAIN:
        return value
    return json.dumps(value, ensure_ascii=False)


def _document(made: Planned, price_table: PriceTable) -> dict[str, Any]:
    return {
        "fleets": list(made.entries),
        "usdAMonth": str(dollars(made.found.usd)),
        "boundUsdAMonth": str(dollars(made.found.bound)),
        "proven": made.found.proven,
        "region": price_table.region,
        "asOf": price_table.as_of.isoformat() if price_table.as_of is not None else None,
        "nodes": {
            entry["name"]: fleet.nodes(made.wants.fewest)
            for fleet, entry in zip(made.found.fleets, made.entries, strict=True)
        },
        "changes": list(made.changes),
        "notes": list(made.notes),
    }
