"""Try single changes of a stack's autoscaling on a trace, and compute the effect of each, for `twin advise`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from console.terminal import output, print_json
from spec import reading, stack_file
from spec.settings import Settings, SettingsError, load, read_config
from spec.stack_names import file_of
from stackctl.cost import prices
from stackctl.cost.throughput import measured
from twin.replay import page
from twin.replay.changes import Change, changes
from twin.replay.command import NoReplay, Replayed, batch_times, expected, simulated, trace_of
from twin.replay.outcome import Outcome
from twin.replay.plan import plans
from twin.replay.simulation import check

_KEY = "triton-eks:autoscaling"


@dataclass(frozen=True)
class Total:
    """Totals of all fleets. `usd` is None if a price is unknown."""

    missed_share: float
    gpu_hours: float
    usd: float | None

    @property
    def rank(self) -> tuple[float, float]:
        """Return the figures to compare: share of misses to 0.01 %, then GPU-hours to 0.1."""
        return round(self.missed_share, 4), round(self.gpu_hours, 1)

    def is_no_better_than(self, other: Total) -> bool:
        """Return whether neither misses nor GPU-hours are lower."""
        return all(one >= its for one, its in zip(self.rank, other.rank, strict=True))


@dataclass(frozen=True)
class Advice:
    """`better`: changes with fewer misses or GPU-hours, best first. `refused`: changes to an invalid stack, and why."""

    now: Total
    better: tuple[tuple[Change, Total], ...]
    no_better: tuple[Change, ...]
    refused: tuple[tuple[Change, str], ...]
    notes: tuple[str, ...]


def advise(stack: str, trace: str, batch_ms: Sequence[str], *, as_json: bool) -> None:
    """Print the effect of each possible change of a stack's pod autoscaling on a trace. Raises Failure."""
    found, name = _advice(stack, trace, batch_ms)
    if as_json:
        print_json({"stack": stack, "trace": name, **_document(found)})
        return
    console = output(soft_wrap=True)
    console.print(f"{stack} under {name}: changes of how its pods are scaled, each by itself, the best first\n")
    console.print(f"{'missed SLO':>10}  {'GPU-hours':>10}  {'US$':>10}")
    console.print(_line(found.now, "as it is"))
    for change, total in found.better:
        console.print(_line(total, change.pasted))
    if not found.better:
        console.print("\nNone of them is better.")
    if found.no_better:
        lines = "; ".join(change.line for change in found.no_better)
        console.print(f"\nNeither fewer misses nor fewer GPU-hours: {lines}")
    for change, why in found.refused:
        console.print(f"\nNot tried, because the stack would be refused: {change.line}\n  {why}")
    if found.better:
        console.print("\nPaste one, and ask again: two changes together do not come to the sum of both.")
    if any(change.section == "models" for change, _ in found.better):
        console.print(
            "With queueTimeoutMs what would be answered too late is rejected instead; `modelctl tune` measures the full "
            "batch that it has to leave room for (docs/autoscaling.md#bounded-queues)."
        )
    for note in found.notes:
        console.print(note)
    console.print(page.SERVERS_ARE_A_MODEL)


def _advice(stack: str, trace: str, batch_ms: Sequence[str]) -> tuple[Advice, str]:
    given = batch_times(batch_ms)
    file = file_of(stack, Path())
    config = read_config(reading.file(file), str(file))
    settings = load(config, stack)
    if settings.autoscaling is None:
        raise NoReplay(f"{stack} has no section {_KEY}, so that nothing scales its pods; its bounds are what is tried here")
    table, evidence = prices.load(settings.region), measured(settings)
    found = plans(settings, table, evidence, given)
    sent = trace_of(trace, found)
    check(sent, expected(found), stack)
    before = simulated(found, sent)
    now = _total(before.outcomes.values())
    tried: list[tuple[Change, Total]] = []
    refused = []
    for change in changes(settings, stack_file.decoded(config[_KEY]), found):
        try:
            changed = load(change.made(config, settings), stack)
        except SettingsError as error:
            refused.append((change, str(error.problems[0])))
            continue
        of_change = simulated(plans(changed, table, evidence, given), sent)
        tried.append((change, _total(of_change.outcomes.values())))
    better = sorted((one for one in tried if not one[1].is_no_better_than(now)), key=lambda one: one[1].rank)
    no_better = tuple(change for change, total in tried if total.is_no_better_than(now))
    return Advice(now, tuple(better), no_better, tuple(refused), _notes(settings, before)), sent.name


def _notes(settings: Settings, before: Replayed) -> tuple[str, ...]:
    notes = list(before.notes)
    own = [fleet.release for fleet in settings.each_fleet if fleet.stack.autoscaling != settings.autoscaling]
    if own:
        notes.append(f"fleets with a number of pods of their own stay as they are: {', '.join(own)}")
    return tuple(notes)


def _total(outcomes: Any) -> Total:
    found: list[Outcome] = list(outcomes)
    requests = sum(outcome.requests for outcome in found)
    usd = [outcome.usd for outcome in found]
    return Total(
        sum(outcome.late + outcome.rejected for outcome in found) / requests if requests else 0.0,
        sum(outcome.gpu_hours for outcome in found),
        None if None in usd else sum(one for one in usd if one is not None),
    )


def _document(found: Advice) -> dict[str, Any]:
    return {
        "now": _figures(found.now),
        "advice": [{change.section: change.keys, **_figures(total)} for change, total in found.better],
        "noBetter": [{change.section: change.keys} for change in found.no_better],
        "refused": [{change.section: change.keys, "why": why} for change, why in found.refused],
        "notes": list(found.notes),
    }


def _figures(total: Total) -> dict[str, float | None]:
    shown = dataclasses.replace(total, usd=None if total.usd is None else round(total.usd, 2))
    return {"missedShare": round(shown.missed_share, 6), "gpuHours": round(shown.gpu_hours, 3), "usd": shown.usd}


def _line(total: Total, what: str) -> str:
    usd = page.UNKNOWN if total.usd is None else f"{total.usd:,.2f}"
    return f"{total.missed_share:>10.2%}  {total.gpu_hours:>10,.1f}  {usd:>10}  {what}"
