"""Compare autoscaling rules on fleets with shared GPUs, in virtual time, and print the table of autoscaling.md.

    python benchmarks/shared_gpu.py [--seconds 2] [--gpus 1.8] [--hours 6] [--seeds 5] [--record]

Six models per GPU under a constant load; executions share a GPU as in `twin replay`. The page has the goals.
"""

from __future__ import annotations

import dataclasses
import math
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import typer

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))  # run as a program, from the checkout

from benchmarks.measurement import RESULTS, Record, write  # noqa: E402
from modelctl.tune import evidence  # noqa: E402
from spec.prometheus.rule import SCALING_WINDOW_SECONDS  # noqa: E402
from spec.scaling.signal import GPU_LOAD, Signal  # noqa: E402
from spec.settings import load, read_config  # noqa: E402
from spec.stack_names import stack_file  # noqa: E402
from stackctl.cost import prices  # noqa: E402
from twin.replay.capacity import Starts  # noqa: E402
from twin.replay.controllers import Keda, Seen  # noqa: E402
from twin.replay.plan import GpuLoad, Plan, plans  # noqa: E402
from twin.replay.prometheus import Target  # noqa: E402
from twin.replay.simulation import CROWDED, simulate  # noqa: E402
from twin.replay.traces import Trace  # noqa: E402

MODELS = 6
SLO_MS = {0.005: 50, 2.0: 10_000, 60.0: 300_000}
"""By the seconds of an execution on an idle GPU."""
FLEETS = (1.8, 9.0)
"""GPUs that all models need together."""
FEWEST, MOST, START_SECONDS, NODE_SECONDS = 2, 40, 240, 192
SETTLE_SECONDS = 3 * 3600
SUM_A_GPU = 1.5
FIRST_SEED = 11
"""Seeds 1 to 3 were used to choose the windows."""
OURS = "ours"
MOST_TURNS, MOST_CROWDED_PERCENT, MOST_PODS_OF_ORACLE = 0, 1.0, 1.1


class Cell(Record):
    """The results of a rule, per seed."""

    rule: str
    turns: tuple[int, ...]
    crowded_percent: tuple[float, ...]
    pods: tuple[float, ...]
    missed_percent: tuple[float, ...]


class Row(Record):
    """The cells of a sample. `oracle`: the oracle's pods."""

    seconds: float
    gpus: float
    oracle: int
    cells: tuple[Cell, ...]


class Report(Record):
    """One run with this many counted hours."""

    kind: str = "shared-gpu"
    started: datetime
    revision: str | None
    command: str
    hours: float
    rows: tuple[Row, ...]


@dataclasses.dataclass(frozen=True)
class PlainSum:
    """The sum of busy instances over all models of a pod."""

    name: str
    models: Sequence[str]

    def of(self, targets: Mapping[str, Target], now: float) -> float | None:
        known = [value for value in (targets[model].needed(now) for model in self.models) if value is not None]
        return sum(known) if known else None


class Oracle:
    """Keeps the pods whose GPU load is at most 85 %."""

    poll_seconds: int | None = None

    def __init__(self, pods: int) -> None:
        self._pods = pods

    def poll(self, seen: Seen) -> None:
        """Do nothing: the oracle knows the load."""

    def decide(self, now: float, timestamp: float, seen: Seen) -> int:  # noqa: ARG002 - as the interface has it
        return self._pods


def main(
    seconds: Annotated[float | None, typer.Option(help="of an execution: 0.005, 2 or 60; default: all")] = None,
    gpus: Annotated[float | None, typer.Option(help="that all models take together; default: 1.8 and 9")] = None,
    hours: Annotated[float, typer.Option(help="that count")] = 6.0,
    seeds: Annotated[int, typer.Option(help="of arrivals and clocks")] = 5,
    record: Annotated[bool, typer.Option("--record", help="write a record into benchmarks/results")] = False,
) -> None:
    """Print changes of direction, crowded time and pods of every rule as Markdown: minimum and maximum of the seeds."""
    started, revision, rows = datetime.now(UTC), evidence.revision(), []
    for each in (seconds,) if seconds is not None else SLO_MS:
        for taken in (gpus,) if gpus is not None else FLEETS:
            rows.append(_row(each, taken, hours, range(FIRST_SEED, FIRST_SEED + seeds)))
            print("\n".join(markdown(rows[-1])), flush=True)
    if record:
        command = shlex.join(["python", *sys.argv])
        report = Report(started=started, revision=revision, command=command, hours=hours, rows=tuple(rows))
        print(f"\nwritten: {write(report, 'shared-gpu', started, RESULTS)}")


def rules(seconds: float, gpus: float) -> Mapping[str, Plan]:
    ours = plan(seconds, gpus)
    short = dataclasses.replace(
        ours, models=tuple(dataclasses.replace(model, window_seconds=SCALING_WINDOW_SECONDS) for model in ours.models)
    )
    return {
        OURS: ours,
        "until now": _with_signals(
            short, [one for one in _signals(short) if one.recording is not GPU_LOAD], short.numbers[:-1]
        ),
        "sum of 1.5, 30 s": _with_sum(short),
        "sum of 1.5": _with_sum(ours),
        "ours, 30 s": short,
        "oracle": dataclasses.replace(ours, controller=partial(Oracle, oracle_pods(gpus)), fewest=oracle_pods(gpus)),
    }


def oracle_pods(gpus: float) -> int:
    return math.ceil(gpus / CROWDED)


def plan(seconds: float, gpus: float) -> Plan:
    """Return prod with six equal models that share a GPU."""
    file = stack_file("prod")
    config: dict[str, Any] = dict(read_config((REPOSITORY / file).read_bytes(), file))
    rate = gpus / MODELS / seconds
    wants = {"device": "gpu", "gpuMemoryMiB": 1000, "sloP95Ms": SLO_MS[seconds], "maxBatchSize": 1}
    serving = {name: {**wants, "expectedRate": rate, "peakRate": rate} for name in names()}
    config["triton-eks:models"] = {"oldReleaseDays": 90, "serving": serving}
    config["triton-eks:worker"] |= {"longestRequestSeconds": 900, "oldMessageMinutes": 30}
    config["triton-eks:triton"]["rollout"] = "rolling"  # one release on the nodes
    config["triton-eks:gpu"]["pools"][0]["max"] = MOST + 2
    config["triton-eks:autoscaling"] = {"minReplicas": FEWEST, "maxReplicas": MOST, "startSeconds": START_SECONDS}
    settings = load(config, "prod")
    (found,) = plans(settings, prices.load(settings.region), {}, dict.fromkeys(names(), (1000 * seconds, 1000 * seconds)))
    return dataclasses.replace(found, starts=Starts(NODE_SECONDS, START_SECONDS - NODE_SECONDS))


def names() -> list[str]:
    return [f"model{number}" for number in range(MODELS)]


def _signals(plan: Plan) -> list[Signal]:
    _, signals = cast(partial[Keda], plan.controller).args
    return list(signals)


def _with_signals(plan: Plan, signals: list[Signal], numbers: tuple[Any, ...]) -> Plan:
    scaled, _ = cast(partial[Keda], plan.controller).args
    triggers = [signal.keda_trigger("http://prometheus") for signal in signals]
    return dataclasses.replace(plan, controller=partial(Keda, {**scaled, "triggers": triggers}, signals), numbers=numbers)


def _with_sum(plan: Plan) -> Plan:
    """Return the plan with the plain sum instead of the load."""
    *others, shared = _signals(plan)
    *numbers, load_of_gpus = plan.numbers
    assert isinstance(load_of_gpus, GpuLoad)
    total = dataclasses.replace(shared, target=SUM_A_GPU)
    return _with_signals(plan, [*others, total], (*numbers, PlainSum(total.name, names())))


def _row(seconds: float, gpus: float, hours: float, seeds: Sequence[int]) -> Row:
    rate = gpus / MODELS / seconds
    trace = Trace("constant", {name: np.full(round(3600 * hours), rate) for name in names()})
    cells = []
    for rule, of in rules(seconds, gpus).items():
        outcomes = [
            simulate(of, trace, everybody=dict.fromkeys(names(), rate), seed=seed, settle_seconds=SETTLE_SECONDS)
            for seed in seeds
        ]
        cells.append(
            Cell(
                rule=rule,
                turns=tuple(outcome.turns for outcome in outcomes),
                crowded_percent=tuple(100 * outcome.crowded_seconds / outcome.seconds for outcome in outcomes),
                pods=tuple(outcome.pod_seconds / outcome.seconds for outcome in outcomes),
                missed_percent=tuple(100 * outcome.missed_share for outcome in outcomes),
            )
        )
    return Row(seconds=seconds, gpus=gpus, oracle=oracle_pods(gpus), cells=tuple(cells))


def markdown(row: Row) -> list[str]:
    """Return a table's lines. Goals that a seed misses are bold."""
    lines = [
        "",
        f"{row.seconds:g} s per execution, {row.gpus:g} GPUs of load, oracle {row.oracle} pods:",
        "",
        "| rule | changes of direction | time above 85 % | pods | missed SLO |",
        "|---|---:|---:|---:|---:|",
    ]
    for cell in row.cells:
        figures = (
            _goal(_between(cell.turns, "d"), max(cell.turns) <= MOST_TURNS),
            _goal(f"{_between(cell.crowded_percent, '.1f')} %", max(cell.crowded_percent) <= MOST_CROWDED_PERCENT),
            _goal(_between(cell.pods, ".1f"), max(cell.pods) <= MOST_PODS_OF_ORACLE * row.oracle),
            f"{_between(cell.missed_percent, '.2f')} %",
        )
        lines.append(f"| {cell.rule} | {' | '.join(figures)} |")
    return lines


def _goal(text: str, met: bool) -> str:
    return text if met else f"**{text}**"


def _between(values: Sequence[float], form: str) -> str:
    least, most = format(min(values), form), format(max(values), form)
    return least if least == most else f"{least} to {most}"


if __name__ == "__main__":
    typer.run(main)
