"""Compare rules of autoscaling on the samples of `twin replay`, in virtual time, and print the tables of autoscaling.md.

    python benchmarks/autoscaling.py [--model single] [--trace steps] [--start 240]
        [--paces | --spare | --look-back | --other-settings | --at-once | --step] [--held-out] [--record]

The servers are simulated: the page says what that leaves out. Every rule has the same pods, nodes
and requests, and the same bounds where these are not what is compared.
"""

from __future__ import annotations

import dataclasses
import math
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, cast

import numpy as np
import typer

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))  # run as a program, from the checkout

from benchmarks.measurement import RESULTS, Record, write  # noqa: E402
from benchmarks.reactive_bound import ReactiveBound  # noqa: E402
from modelctl.tune import evidence  # noqa: E402
from spec.prometheus.timing import NODE_START_SECONDS  # noqa: E402
from spec.scaling.signal import BUSY_SHARE_BESIDE_BOUNDED_QUEUE, SPARE_PODS_BESIDE_BOUNDED_QUEUE  # noqa: E402
from spec.settings import load, read_config  # noqa: E402
from spec.stack_names import stack_file  # noqa: E402
from stackctl.cost import prices  # noqa: E402
from twin.replay import samples  # noqa: E402
from twin.replay.capacity import Starts  # noqa: E402
from twin.replay.controllers import Controller, Keda, Seen  # noqa: E402
from twin.replay.hpa import SYNC_SECONDS, Autoscaler, by_average_value, by_pods_metric  # noqa: E402
from twin.replay.keda import autoscaler_of  # noqa: E402
from twin.replay.outcome import Outcome  # noqa: E402
from twin.replay.plan import Number, Plan, plans  # noqa: E402
from twin.replay.prometheus import Target  # noqa: E402
from twin.replay.simulation import simulate  # noqa: E402
from twin.replay.traces import Rates, Trace  # noqa: E402

NAME = "classify"
STARTS = (30, 240, 600)
SEEDS = (1, 2, 3)
HELD_OUT_SEEDS = (11, 12, 13)
GPU_BUSY = 0.8
CPU_BUSY, CPUS = 0.8, 3.0
CPU_SECONDS = 0.00043
"""Of a request in a pod whose model computes on a GPU: tritonserver 2.51 and the stub of the Python model of twin/models,
which waits instead of computing, 600 requests at 30 a second by gRPC. On the twin, not on a GPU node.
"""
QUEUE = 5
QUEUE_US = 50
"""https://github.com/triton-inference-server/server/blob/e1db8a603d863b1317ee859bdeea2be19959462e/deploy/k8s-onprem/values.yaml"""
RATE_SHARE = 0.8
ORACLE_SHARE = 0.85
"""Of what its pods can answer, the most that the oracle lets come."""


@dataclass(frozen=True)
class Model:
    """`batch_ms`: of one request, and of a full batch. `peak`: requests/s of five pods."""

    batch_ms: tuple[float, float]
    batch: int
    slo_ms: int
    peak: float


MODELS = {"batching": Model((25.0, 100.0), 8, 200, 400.0), "single": Model((400.0, 400.0), 1, 1000, 12.5)}
FEWEST, MOST, FAR_MORE = 2, 12, 40
STEPS, STEP_SEEDS = ((0.16, 0.72), (0.002, 0.48)), 20
"""Parts of the peak before and after a step, of which a pod answers a fifth."""
OURS, AT_ONCE = "bounded queue", "at once"
NONE_TO_SPARE, FLOOR, FLOOR_ON_RATE = "none to spare", "5 pods at least", "5 pods at least, on rate"
OF_PEAK = 5
"""The pods that the peak takes."""
OTHERS = ("CPU 80 %", "GPU 80 %", "queue 5", "production-stack")
"""Of whom the one with the fewest misses is the best. The queue's time is not among them: it keeps all pods, always."""
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


class OnOneNumber:
    """A HorizontalPodAutoscaler with one metric of type Pods and the API's default pace."""

    poll_seconds: int | None = None

    def __init__(self, target: float) -> None:
        self._target = target
        self._autoscaler = Autoscaler({"minReplicas": FEWEST, "maxReplicas": MOST})

    def poll(self, seen: Seen) -> None:
        """Ask nothing: it is asked at each look."""

    def decide(self, now: float, timestamp: float, seen: Seen) -> int:  # noqa: ARG002 - as the interface has it
        """Return the pods wanted."""
        values = seen.values.get("number", ())
        missing = seen.current - seen.pending - len(values)
        asked = by_pods_metric(values, self._target, seen.current, missing=missing, pending=seen.pending)
        return self._autoscaler.decide(now, seen.current, [asked])


class ProductionStack:
    """The chart's ScaledObject: waiting requests, 5 a pod, asked every 15 s, the API's default pace.

    https://github.com/vllm-project/production-stack/blob/a6c01db05f65f556235413ba8dbcfb0c01132fff/helm/values.yaml
    (`keda`). Its query has an element for each pod, and KEDA refuses more than one, so that it works with one pod only. Here
    they are added up. https://github.com/kedacore/keda/blob/v2.20.2/pkg/scalers/prometheus_scaler.go (`ExecutePromQuery`)
    """

    poll_seconds: int | None = 15

    def __init__(self) -> None:
        self._autoscaler = Autoscaler({"minReplicas": FEWEST, "maxReplicas": MOST})
        self._waiting: float | None = None

    def poll(self, seen: Seen) -> None:
        """Ask for the requests that wait."""
        self._waiting = seen.total("number")

    def decide(self, now: float, timestamp: float, seen: Seen) -> int:  # noqa: ARG002 - as the interface has it
        """Return the pods wanted."""
        asked = None if self._waiting is None else by_average_value(self._waiting, QUEUE, seen.current)
        return self._autoscaler.decide(now, seen.current, [asked])


class Oracle:
    """Knows what will come until a pod that it wants now can serve, and wants the pods for the most of it."""

    poll_seconds: int | None = None

    def __init__(self, rates: Rates, start_seconds: int, capacity: float) -> None:
        self._rates, self._ahead, self._each = rates, start_seconds + 30, capacity * ORACLE_SHARE

    def poll(self, seen: Seen) -> None:
        """Ask nothing: it knows."""

    def decide(self, now: float, timestamp: float, seen: Seen) -> int:  # noqa: ARG002 - as the interface has it
        """Return the pods wanted."""
        second = max(0, int(now))
        most = float(self._rates[second : second + self._ahead].max(initial=0.0))
        return min(max(math.ceil(most / self._each), FEWEST), MOST)


class AtOnce:
    """Knows the load of this second, without a scrape, a window or chance, and nothing of the next one.

    It wants what our rule wants of a model with a bounded queue, and looks back as long. While its pods start it can do
    nothing: what it misses, no rule misses less of that reacts, and keeps no more pods before the load comes.
    """

    poll_seconds: int | None = None

    def __init__(self, rates: Rates, capacity: float, spec: Mapping[str, Any]) -> None:
        self._rates, self._each = rates, capacity * BUSY_SHARE_BESIDE_BOUNDED_QUEUE
        self._autoscaler = Autoscaler(spec)

    def poll(self, seen: Seen) -> None:
        """Ask nothing: it knows."""

    def decide(self, now: float, timestamp: float, seen: Seen) -> int:  # noqa: ARG002 - as the interface has it
        """Return the pods wanted."""
        load = float(self._rates[max(0, int(now))])
        return self._autoscaler.decide(now, seen.current, [math.ceil(load / self._each + SPARE_PODS_BESIDE_BOUNDED_QUEUE)])


def queue_us(target: Target, _now: float) -> float | None:
    """Return the mean wait of a request in the last two scrapes, by Little's law: those that wait, over those answered."""
    recent = list(target.samples)[-2:]
    if len(recent) < 2:
        return None
    before, after = recent
    waited = (before.pending + after.pending) / 2 * (after.at - before.at)
    return 1e6 * waited / (1 + after.successes - before.successes)


def cpu_share(target: Target, _now: float) -> float | None:
    """Return the share of its CPUs that a pod used between the last two scrapes."""
    recent = list(target.samples)[-2:]
    if len(recent) < 2:
        return None
    before, after = recent
    return CPU_SECONDS * (after.successes - before.successes) / (after.at - before.at) / CPUS


def ours(model: Model, start_seconds: int, most: int = MOST, *, bounded: bool = False, **keys: Any) -> Plan:
    """Return prod with one model, its derived targets, this measured start, and these keys of `triton-eks:autoscaling`.

    `bounded`: with a queue that holds nothing that can no longer be answered in time.
    """
    file = stack_file("prod")
    config: dict[str, Any] = dict(read_config((REPOSITORY / file).read_bytes(), file))
    serving = {"device": "cpu", "sloP95Ms": model.slo_ms, "expectedRate": model.peak / 2, "peakRate": model.peak}
    if bounded:
        serving["queueTimeoutMs"] = round(model.slo_ms - model.batch_ms[1])
    config["triton-eks:models"] = {"oldReleaseDays": 90, "serving": {NAME: {**serving, "maxBatchSize": model.batch}}}
    config["triton-eks:gpu"]["pools"][0]["max"] = most + 2
    config["triton-eks:autoscaling"] = {
        "minReplicas": FEWEST,
        "maxReplicas": most,
        "startSeconds": start_seconds,
        **keys,
    }
    settings = load(config, "prod")
    (plan,) = plans(settings, prices.load(settings.region), {}, {NAME: model.batch_ms})
    node = round(start_seconds * NODE_START_SECONDS / 300)
    return dataclasses.replace(plan, starts=Starts(node, start_seconds - node))


def _with_pace(plan: Plan, behavior: Mapping[str, Any]) -> Plan:
    """Return the plan with other fields of `behavior`; the API's where they are empty."""
    scaled, signals = cast(partial[Keda], plan.controller).args
    advanced = scaled["advanced"]["horizontalPodAutoscalerConfig"]
    pace = {**advanced["behavior"], **behavior} if behavior else None
    changed = {**scaled, "advanced": {"horizontalPodAutoscalerConfig": {**advanced, "behavior": pace}}}
    return dataclasses.replace(plan, controller=partial(Keda, changed, signals))


def _limits(settle: int, pods: int, percent: int, period: int) -> dict[str, Any]:
    policies = [{"type": "Pods", "value": pods}, {"type": "Percent", "value": percent}]
    return {
        "stabilizationWindowSeconds": settle,
        "selectPolicy": "Max",
        "policies": [{**policy, "periodSeconds": period} for policy in policies if policy["value"]],
    }


def rules(model: Model, start_seconds: int, trace: Trace) -> Mapping[str, Plan]:
    """Return a plan for each rule."""
    plain = ours(model, start_seconds)

    def other(controller: Callable[[], Controller], read: Callable[[Target, float], float | None] | None) -> Plan:
        numbers = (Number("number", NAME, read),) if read is not None else ()
        return dataclasses.replace(plain, controller=controller, numbers=numbers)

    capacity = plain.models[0].service.capacity
    return {
        "ours": plain,
        "bounded queue": ours(model, start_seconds, bounded=True),
        "bounded, one warm pod": ours(model, start_seconds, bounded=True, warmPods=1),
        "bounded, on rate": ours(model, start_seconds, bounded=True, targets={NAME: {"rate": RATE_SHARE * capacity}}),
        "CPU 80 %": other(partial(OnOneNumber, CPU_BUSY), cpu_share),
        "GPU 80 %": other(partial(OnOneNumber, GPU_BUSY), Target.busy),
        "queue 5": other(partial(OnOneNumber, QUEUE), Target.pending),
        "queue time": other(partial(OnOneNumber, QUEUE_US), queue_us),
        "production-stack": other(ProductionStack, Target.pending),
        "oracle": other(partial(Oracle, trace.rates[NAME], start_seconds, capacity), None),
    }


def at_once(model: Model, start_seconds: int, trace: Trace) -> Mapping[str, Plan]:
    """Return our rule with a bounded queue, and one that sees the load at once."""
    plain = ours(model, start_seconds, bounded=True)
    scaled, _ = cast(partial[Keda], plain.controller).args
    knows = partial(AtOnce, trace.rates[NAME], plain.models[0].service.capacity, autoscaler_of(scaled))
    return {OURS: plain, AT_ONCE: dataclasses.replace(plain, controller=knows)}


def steps(model: Model, plan: Plan) -> Iterator[str]:
    """Yield, for steps of load from 16 % of the peak and from nearly nothing, the seconds until another pod is wanted.

    The least, the middle and the most of STEP_SEEDS moments at which scrapes, rules, questions and looks begin. A start
    lasts longer. The second level needs more pods than there are at the first one.
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


def paces(model: Model, start_seconds: int) -> Mapping[str, Plan]:
    """Return our rule, without a spare pod, with other limits of how many come and go, at bounds far from what is needed."""
    plain = ours(model, start_seconds, most=FAR_MORE, sparePods=0)
    window = max(2 * start_seconds, 600)
    slowly = _limits(window, 1, 0, max(start_seconds, 180))
    return {
        "2, or 50 %; one goes": _with_pace(plain, {"scaleUp": _limits(30, 2, 50, start_seconds), "scaleDown": slowly}),
        "ours: 4, or 300 %; half go": plain,
        "one goes": _with_pace(plain, {"scaleDown": slowly}),
        "200 %": _with_pace(plain, {"scaleUp": _limits(30, 4, 200, start_seconds)}),
        "without the 30 s": _with_pace(plain, {"scaleUp": _limits(0, 4, 300, start_seconds)}),
        "100 % every 15 s": _with_pace(plain, {"scaleUp": _limits(0, 4, 100, 15)}),
    }


def spares(model: Model, start_seconds: int) -> Mapping[str, Plan]:
    """Return our rule with other shares of busy instances, and other numbers of spare pods."""

    def busy(share: float, spare: int) -> Plan:
        return ours(model, start_seconds, sparePods=spare, targets={NAME: {"busy": share}})

    return {
        "70 %": ours(model, start_seconds, sparePods=0),
        "60 %": busy(0.6, 0),
        "85 %": busy(0.85, 0),
        "70 % and one": busy(0.7, 1),
        "75 % and one": busy(0.75, 1),
        "ours: 80 % and one": ours(model, start_seconds),
        "85 % and one": busy(0.85, 1),
    }


def look_backs(model: Model, start_seconds: int) -> Mapping[str, Plan]:
    """Return our rule with a bounded queue, and with other times in which fewer pods have to be enough before one goes."""

    def after(seconds: int) -> Plan:
        return ours(model, start_seconds, bounded=True, scaleDownAfterSeconds=seconds)

    return {
        "one start, 300 s at least": after(max(start_seconds, 300)),
        OURS: ours(model, start_seconds, bounded=True),
        "120 s": after(120),
    }


def other_settings(model: Model, start_seconds: int) -> Mapping[str, Plan]:
    """Return our rule with a bounded queue, and with settings of a stack by which a cell is met that ours is short of."""
    plain = ours(model, start_seconds, bounded=True)
    busy = {NAME: {"busy": BUSY_SHARE_BESIDE_BOUNDED_QUEUE}}
    rate = {NAME: {"rate": RATE_SHARE * plain.models[0].service.capacity}}
    return {
        OURS: plain,
        NONE_TO_SPARE: ours(model, start_seconds, bounded=True, sparePods=0, targets=busy),
        FLOOR: ours(model, start_seconds, bounded=True, minReplicas=OF_PEAK),
        FLOOR_ON_RATE: ours(model, start_seconds, bounded=True, minReplicas=OF_PEAK, targets=rate),
    }


def held_out(everybody: Mapping[str, float]) -> Mapping[str, Trace]:
    """Return traces that no setting was chosen by: two peaks a day, levels by chance, a fast ramp, and spikes."""
    peak, source = everybody[NAME], np.random.default_rng(99)
    levels = np.clip(0.5 + np.cumsum(source.normal(0, 0.12, 36)), 0.1, 1.0)
    hours = np.arange(24 * 3600) / 3600
    day = 0.15 + 0.55 * np.exp(-(((hours - 9.5) / 2.2) ** 2)) + 0.6 * np.exp(-(((hours - 19) / 2.5) ** 2))
    source = np.random.default_rng(5)
    for begins in source.integers(0, len(day), 16):
        length, height = source.integers(60, 600), source.uniform(0.1, 0.3)
        day[begins : begins + length] += height
    up = np.linspace(0.2, 1.0, 600)
    spikes = np.full(3 * 3600, 0.4)
    for begins in range(600, len(spikes), 1200):
        spikes[begins : begins + 180] = 0.74
    shapes = {
        "two peaks": day,
        "walk": np.repeat(levels, 300),
        "fast ramp": np.concatenate([np.full(900, 0.2), up, np.full(1800, 1.0), up[::-1], np.full(900, 0.2)]),
        "spikes": spikes,
    }
    return {name: Trace(name, {NAME: peak * shape}) for name, shape in shapes.items()}


class Cell(Record):
    """The outcome of a rule on a trace, with each seed: the share of requests that miss the SLO, and hours of GPUs."""

    rule: str
    missed_percent: tuple[float, ...]
    gpu_hours: tuple[float, ...]


class Row(Record):
    """The cells of a trace."""

    trace: str
    cells: tuple[Cell, ...]


class Table(Record):
    """The rows of a model whose pods start in so many seconds."""

    model: str
    start_seconds: int
    rows: tuple[Row, ...]


class Report(Record):
    """One run. `compared`: rules, paces, spare pods, look-backs, other settings, these three on traces held out, at once."""

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
    """Print misses and GPU-hours of every rule, as Markdown: the least and the most of the seeds."""
    for option, given, known in (("--model", model, MODELS), ("--trace", trace, samples.OBSERVED)):
        if given is not None and given not in known:
            raise typer.BadParameter(f"there is no {given}; give one of {', '.join(known)}", param_hint=option)
    if step:
        print(
            f"| | {' | '.join(f'{100 * one:g} to {100 * other:g} %' for one, other in STEPS)} |\n|---|{'---:|' * len(STEPS)}"
        )
        for name, of in MODELS.items():
            for rule, bounded in (("ours", False), (OURS, True)):
                print(f"| `{name}`, {rule} | {' | '.join(steps(of, ours(of, 240, bounded=bounded)))} |", flush=True)
        return
    started, revision, tables = datetime.now(UTC), evidence.revision(), []
    for name in (model,) if model is not None else MODELS:
        of, everybody = MODELS[name], {NAME: MODELS[name].peak}
        traces = {one: samples.sample(one, everybody) for one in ((trace,) if trace is not None else samples.OBSERVED)}
        for seconds in (start,) if start is not None else STARTS:
            rows = []
            for sample, sent in (held_out(everybody) if others else traces).items():
                if bound:
                    found = at_once(of, seconds, sent)
                elif compare_paces:
                    found = paces(of, seconds)
                elif compare_look_backs:
                    found = look_backs(of, seconds)
                elif compare_settings:
                    found = other_settings(of, seconds)
                else:
                    found = spares(of, seconds) if compare_spares or others else rules(of, seconds, sent)
                every = HELD_OUT_SEEDS if others else SEEDS
                seeds = every[:1] if sent.seconds >= _DAY else every  # of millions of requests two differ by nothing
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


def goals(table: Table) -> list[str]:
    """Return the lines of a table of what the goal asks of our rule; none where others or the oracle were not simulated."""
    if not _has_goal(table):
        return []
    lines = ["", f"| | {' | '.join(GOAL)} |", f"|---|{'---:|' * len(GOAL)}"]
    return [*lines, *(f"| `{row.trace}` | {' | '.join(goal(row, bound_of(table, row)))} |" for row in table.rows)]


def goals_met(tables: Sequence[Table]) -> list[str]:
    """Return the lines of a table of the cells in which each of our rules meets each part of the goal, and all of it."""
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
    """The limits on one trace: at most so many misses in percent, and at most so many hours, of two kinds."""

    best: str
    best_missed: float
    best_hours: float
    oracle_hours: float

    @property
    def missed(self) -> float:
        """Return half of the misses of the best other rule."""
        return self.best_missed / 2

    @property
    def hours(self) -> tuple[float, float]:
        """Return 1.1 times the hours of the best other rule, and 1.5 times those of the oracle."""
        return 1.1 * self.best_hours, 1.5 * self.oracle_hours

    def met(self, missed: float, hours: float) -> tuple[bool, bool, bool]:
        """Return whether a rule with these misses and hours meets each of the three."""
        beside_best, beside_oracle = self.hours
        return round(missed, 2) <= round(self.missed, 2), hours <= beside_best, hours <= beside_oracle


def goal_of(row: Row) -> Goal:
    """Return the goal on one trace."""
    means = _means(row)
    best = min(OTHERS, key=lambda rule: (round(means[rule][0], 2), means[rule][1]))
    return Goal(best, *means[best], means["oracle"][1])


def bound_of(table: Table, row: Row) -> ReactiveBound:
    """Return the bound of rules that react, of a trace of one of the tables."""
    model = MODELS[table.model]
    plan = ours(model, table.start_seconds, bounded=True)
    return ReactiveBound(plan, samples.sample(row.trace, {NAME: model.peak}), FEWEST, MOST)


def least_missed(asked: Goal, bound: ReactiveBound) -> float | None:
    """Return the least misses in percent of rules that react, within the hours of the goal; None where those are too few."""
    return bound.missed_percent(min(asked.hours))


def is_excluded(asked: Goal, least: float | None) -> bool:
    """Return whether no rule that reacts can meet the goal: it takes more hours, or the least misses are too many."""
    return least is None or round(least, 2) > round(asked.missed, 2)


def goal(row: Row, bound: ReactiveBound) -> list[str]:
    """Return the columns of GOAL for one trace. A part of the goal that is missed, or cannot be met, is in bold."""
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
    """Return the misses and the hours of each rule."""
    return {cell.rule: (fmean(cell.missed_percent), fmean(cell.gpu_hours)) for cell in row.cells}


def markdown(table: Table) -> list[str]:
    """Return the lines of a table."""
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
