"""Compare autoscaling rules on the samples of `twin replay`, in virtual time, and print the tables of autoscaling.md.

    python benchmarks/autoscaling.py [--model single] [--trace steps] [--start 240]
        [--paces | --spare | --look-back | --other-settings | --at-once | --step] [--held-out] [--record]

The servers are simulated; the page lists the limits of the simulation. Every rule has the same pods, nodes and requests, and
the same bounds unless the comparison varies them.
"""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Annotated

import numpy as np
import typer

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))  # run as a program, from the checkout

from benchmarks import autoscaling_rules as rules  # noqa: E402
from benchmarks.autoscaling_rules import AT_ONCE, FEWEST, MODELS, MOST, NAME, OURS, Model  # noqa: E402
from benchmarks.measurement import RESULTS, Record, write  # noqa: E402
from benchmarks.reactive_bound import ReactiveBound  # noqa: E402
from modelctl.tune import evidence  # noqa: E402
from twin.replay import samples  # noqa: E402
from twin.replay.hpa import SYNC_SECONDS  # noqa: E402
from twin.replay.outcome import Outcome  # noqa: E402
from twin.replay.plan import Plan  # noqa: E402
from twin.replay.simulation import simulate  # noqa: E402
from twin.replay.traces import Trace  # noqa: E402

STARTS = (30, 240, 600)
SEEDS = (1, 2, 3)
HELD_OUT_SEEDS = (11, 12, 13)
STEPS, STEP_SEEDS = ((0.16, 0.72), (0.002, 0.48)), 20
"""Shares of the peak before and after a step; one pod answers a fifth of the peak."""
OTHERS = ("CPU 80 %", "GPU 80 %", "queue 5", "production-stack")
"""The rule with the fewest misses counts as the best. The queue time is excluded, because it always keeps all pods."""
OUR_RULES = ("ours", OURS, "bounded, one warm pod", "bounded, on rate")
GOAL = (
    "best other rule",
    "half of its misses",
    "1.1 times its hours",
    "1.5 times the oracle's hours",
    "reactive bound",
    "the same within our hours",
)
_DAY = 86_400


class Cell(Record):
    """The results of a rule on a trace, per seed: the share of requests that miss the SLO, and GPU-hours."""

    rule: str
    missed_percent: tuple[float, ...]
    gpu_hours: tuple[float, ...]


class Row(Record):
    """The cells of a trace."""

    trace: str
    cells: tuple[Cell, ...]


class Table(Record):
    """The rows of a model whose pods start in this many seconds."""

    model: str
    start_seconds: int
    rows: tuple[Row, ...]


class Report(Record):
    """One run. `compared`: rules, paces, spare pods, look-backs or other settings, the last three also on held-out traces,
    or at once.
    """

    kind: str = "autoscaling"
    started: datetime
    revision: str | None
    command: str
    compared: str
    tables: tuple[Table, ...]


def main(
    model: Annotated[str | None, typer.Option(help="batching or single; default: both")] = None,
    trace: Annotated[str | None, typer.Option(help="one of the samples; default: all")] = None,
    start: Annotated[int | None, typer.Option(help="seconds of a start; default: 30, 240 and 600")] = None,
    compare_paces: Annotated[bool, typer.Option("--paces", help="limits of our own rule, instead of other rules")] = False,
    compare_spares: Annotated[bool, typer.Option("--spare", help="spare pods and shares of our own rule")] = False,
    compare_look_backs: Annotated[
        bool, typer.Option("--look-back", help="how long fewer pods have to be enough, beside a bounded queue")
    ] = False,
    compare_settings: Annotated[
        bool, typer.Option("--other-settings", help="settings by which a cell is met that ours is short of")
    ] = False,
    bound: Annotated[bool, typer.Option("--at-once", help="our rule beside one that sees the load at once")] = False,
    step: Annotated[bool, typer.Option("--step", help="seconds from a step of load to another pod wanted")] = False,
    others: Annotated[
        bool,
        typer.Option("--held-out", help="on traces and seeds that nothing was chosen by: shares, look-backs or settings"),
    ] = False,
    record: Annotated[bool, typer.Option("--record", help="write a record into benchmarks/results; not of --step")] = False,
) -> None:
    """Print misses and GPU-hours of every rule as Markdown: the minimum and the maximum of the seeds."""
    for option, given, known in (("--model", model, MODELS), ("--trace", trace, samples.OBSERVED)):
        if given is not None and given not in known:
            raise typer.BadParameter(f"there is no {given}; give one of {', '.join(known)}", param_hint=option)
    if step:
        print(
            f"| | {' | '.join(f'{100 * one:g} to {100 * other:g} %' for one, other in STEPS)} |\n|---|{'---:|' * len(STEPS)}"
        )
        for name, of in MODELS.items():
            for rule, bounded in (("ours", False), (OURS, True)):
                print(f"| `{name}`, {rule} | {' | '.join(steps(of, rules.ours(of, 240, bounded=bounded)))} |", flush=True)
        return
    started, revision, tables = datetime.now(UTC), evidence.revision(), []
    for name in (model,) if model is not None else MODELS:
        of, everybody = MODELS[name], {NAME: MODELS[name].peak}
        traces = {one: samples.sample(one, everybody) for one in ((trace,) if trace is not None else samples.OBSERVED)}
        for seconds in (start,) if start is not None else STARTS:
            rows = []
            for sample, sent in (rules.held_out(everybody) if others else traces).items():
                if bound:
                    found = rules.at_once(of, seconds, sent)
                elif compare_paces:
                    found = rules.paces(of, seconds)
                elif compare_look_backs:
                    found = rules.look_backs(of, seconds)
                elif compare_settings:
                    found = rules.other_settings(of, seconds)
                else:
                    found = rules.spares(of, seconds) if compare_spares or others else rules.of_all(of, seconds, sent)
                every = HELD_OUT_SEEDS if others else SEEDS
                seeds = every[:1] if sent.seconds >= _DAY else every  # with millions of requests, two seeds do not differ
                cells = []
                for rule, plan in found.items():
                    sync = 1 if rule == AT_ONCE else SYNC_SECONDS
                    outcomes = (simulate(plan, sent, everybody=everybody, seed=seed, sync_seconds=sync) for seed in seeds)
                    cells.append(_cell(rule, outcomes))
                rows.append(Row(trace=sample, cells=tuple(cells)))
                shown = markdown(Table(model=name, start_seconds=seconds, rows=tuple(rows)))
                print("\n".join(shown if len(rows) == 1 else shown[-1:]), flush=True)
            tables.append(Table(model=name, start_seconds=seconds, rows=tuple(rows)))
            print("\n".join(goals(tables[-1])), flush=True)
    print("\n".join(goals_met(tables)))
    if record:
        modes = {
            "look-backs, held out": compare_look_backs and others,
            "look-backs": compare_look_backs,
            "other settings, held out": compare_settings and others,
            "other settings": compare_settings,
            "held out": others,
            "paces": compare_paces,
            "spare pods": compare_spares,
            "at once": bound,
        }
        compared = next((mode for mode, given in modes.items() if given), "rules")
        command = shlex.join(["python", *sys.argv])
        report = Report(started=started, revision=revision, command=command, compared=compared, tables=tuple(tables))
        print(f"\nwritten: {write(report, 'autoscaling', started, RESULTS)}")


def steps(model: Model, plan: Plan) -> Iterator[str]:
    """Yield the seconds until another pod is wanted, for steps from 16 % of the peak and from almost no load.

    Minimum, median and maximum over STEP_SEEDS offsets of scrapes, rules, polls and decisions. A start lasts longer. The
    second level needs more pods than the first level has.
    """
    for before, after in STEPS:
        rates = np.full(900, before * model.peak)
        rates[300:] = after * model.peak
        found = []
        for seed in range(STEP_SEEDS):
            wanted = simulate(plan, Trace("step", {NAME: rates}), everybody={NAME: 1}, seed=seed).wanted
            had = [pods for at, pods in wanted if at <= 300][-1]
            found.append(next((at - 300 for at, pods in wanted if at > 300 and pods > had), math.inf))
        found.sort()
        yield f"{found[0]:g}, {found[STEP_SEEDS // 2]:g}, {found[-1]:g} s"


def goals(table: Table) -> list[str]:
    """Return the table lines of the goal for our rule; empty unless the other rules and the oracle were simulated."""
    if not _has_goal(table):
        return []
    lines = ["", f"| | {' | '.join(GOAL)} |", f"|---|{'---:|' * len(GOAL)}"]
    return [*lines, *(f"| `{row.trace}` | {' | '.join(goal(row, bound_of(table, row)))} |" for row in table.rows)]


def goals_met(tables: Sequence[Table]) -> list[str]:
    """Return the table lines with the cells in which each of our rules meets each part of the goal, and all parts."""
    cells = [(row, bound_of(table, row)) for table in tables if _has_goal(table) for row in table.rows]
    if not cells:
        return []
    lines = ["", f"| of {len(cells)} cells | {' | '.join(GOAL[1:4])} | all three |", f"|---|{'---:|' * 4}"]
    for rule in OUR_RULES:
        met = [goal_of(row).met(*_means(row)[rule]) for row, _ in cells]
        numbers = [sum(one[part] for one in met) for part in range(3)] + [sum(map(all, met))]
        lines.append(f"| {rule} | {' | '.join(map(str, numbers))} |")
    excluded = sum(is_excluded(goal_of(row), least_missed(goal_of(row), bound)) for row, bound in cells)
    return [*lines, "", f"Cells in which the reactive bound excludes it: {excluded}."]


@dataclass(frozen=True)
class Goal:
    """The limits on one trace: maximum misses in percent, and two maximum GPU-hours."""

    best: str
    best_missed: float
    best_hours: float
    oracle_hours: float

    @property
    def missed(self) -> float:
        """Return half the misses of the best other rule."""
        return self.best_missed / 2

    @property
    def hours(self) -> tuple[float, float]:
        """Return 1.1 times the hours of the best other rule, and 1.5 times the oracle's hours."""
        return 1.1 * self.best_hours, 1.5 * self.oracle_hours

    def met(self, missed: float, hours: float) -> tuple[bool, bool, bool]:
        """Return for each of the three limits whether a rule with these misses and hours meets it."""
        beside_best, beside_oracle = self.hours
        return round(missed, 2) <= round(self.missed, 2), hours <= beside_best, hours <= beside_oracle


def goal_of(row: Row) -> Goal:
    means = _means(row)
    best = min(OTHERS, key=lambda rule: (round(means[rule][0], 2), means[rule][1]))
    return Goal(best, *means[best], means["oracle"][1])


def bound_of(table: Table, row: Row) -> ReactiveBound:
    """Return the bound of reactive rules for a trace of one of the tables."""
    model = MODELS[table.model]
    plan = rules.ours(model, table.start_seconds, bounded=True)
    return ReactiveBound(plan, samples.sample(row.trace, {NAME: model.peak}), FEWEST, MOST)


def least_missed(asked: Goal, bound: ReactiveBound) -> float | None:
    """Return the least misses in percent of reactive rules within the goal's hours; None if these are too few."""
    return bound.missed_percent(min(asked.hours))


def is_excluded(asked: Goal, least: float | None) -> bool:
    """Return whether no reactive rule can meet the goal: it needs more hours, or its least misses are too many."""
    return least is None or round(least, 2) > round(asked.missed, 2)


def goal(row: Row, bound: ReactiveBound) -> list[str]:
    """Return the columns of GOAL for one trace. Missed or unreachable parts of the goal are bold."""
    asked, (missed, hours) = goal_of(row), _means(row)[OURS]
    met = asked.met(missed, hours)
    least, at_ours = least_missed(asked, bound), bound.missed_percent(hours)

    def figure(text: str, met: bool) -> str:
        return text if met else f"**{text}**"

    return [
        f"{asked.best}: {asked.best_missed:.2f} %, {asked.best_hours:.1f} h",
        figure(f"{missed:.2f} of {asked.missed:.2f} %", met[0]),
        *(figure(f"{hours:.1f} of {most:.1f} h", fits) for most, fits in zip(asked.hours, met[1:], strict=True)),
        figure(
            f"{least:.2f} %" if least is not None else f"{bound.least_hours():.1f} h of {min(asked.hours):.1f} h",
            not is_excluded(asked, least),
        ),
        f"{at_ours:.2f} %" if at_ours is not None else f"{bound.least_hours():.1f} h",
    ]


def _has_goal(table: Table) -> bool:
    return any(cell.rule == "oracle" for cell in table.rows[0].cells)


def _means(row: Row) -> dict[str, tuple[float, float]]:
    """Return the mean misses and hours of each rule."""
    return {cell.rule: (fmean(cell.missed_percent), fmean(cell.gpu_hours)) for cell in row.cells}


def markdown(table: Table) -> list[str]:
    names = [cell.rule for cell in table.rows[0].cells]
    return [
        "",
        f"`{table.model}`, start of a pod in {table.start_seconds} s:",
        "",
        f"| | {' | '.join(names)} |",
        f"|---|{'---:|' * len(names)}",
        *(f"| `{row.trace}` | {' | '.join(map(_said, row.cells))} |" for row in table.rows),
    ]


def _cell(rule: str, outcomes: Iterable[Outcome]) -> Cell:
    found = list(outcomes)
    return Cell(
        rule=rule,
        missed_percent=tuple(100 * outcome.missed_share for outcome in found),
        gpu_hours=tuple(outcome.gpu_hours for outcome in found),
    )


def _said(cell: Cell) -> str:
    missed = _between([f"{percent:.2f}" for percent in cell.missed_percent])
    return f"{missed} %, {_between([f'{hours:.1f}' for hours in cell.gpu_hours])} h"


def _between(texts: list[str]) -> str:
    least, most = min(texts, key=float), max(texts, key=float)
    return least if least == most else f"{least} to {most}"


if __name__ == "__main__":
    typer.run(main)
