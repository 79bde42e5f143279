"""Try changes of a stack's autoscaling on a trace, one at a time: what each would come to, for `twin advise`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from console.terminal import output, print_json
from spec import reading, stack_file
from spec.prometheus.timing import start_seconds
from spec.scaling.behavior import behavior
from spec.scaling.signal import BUSY_SHARE_BESIDE_SPARE, instances_per_pod, spare_pods
from spec.settings import Settings, SettingsError, load, read_config
from spec.stack_names import file_of
from stackctl.cost import prices
from stackctl.cost.throughput import measured
from twin.replay import page
from twin.replay.command import NoReplay, Replayed, batch_times, expected, simulated, trace_of
from twin.replay.outcome import Outcome
from twin.replay.plan import Plan, plans
from twin.replay.service import ASSUMED
from twin.replay.simulation import check

_KEY = "triton-eks:autoscaling"
_BUSY_SHARES = (0.5, 0.85)
"""Of a model's instances, how many are to be busy; 0.7, or with a spare pod 0.8 or 0.9, are derived (`spec.scaling.signal`).

More than 0.87 might never ask for a pod: of an instance that is always busy 0.96 were measured
(docs/facts/triton-metrics.md#measured-pod), and a tenth more than the target is tolerated.
"""
_LONGEST_LOOK_BACK_SECONDS = 3600

Keys = Mapping[str, Any]
"""Keys of the section `autoscaling` with their values, as a stack file has them."""


@dataclass(frozen=True)
class Total:
    """Of all fleets. `usd` None: there is no price."""

    missed_share: float
    gpu_hours: float
    usd: float | None

    @property
    def rank(self) -> tuple[float, float]:
        """Return what is compared: misses to a hundredth of a per cent, then hours of GPUs to a tenth."""
        return round(self.missed_share, 4), round(self.gpu_hours, 1)

    def is_no_better_than(self, other: Total) -> bool:
        """Return whether neither misses nor hours are fewer."""
        return all(one >= its for one, its in zip(self.rank, other.rank, strict=True))


@dataclass(frozen=True)
class Advice:
    """`better`: changes with fewer misses or fewer hours, best first. `refused`: why the stack would not be valid."""

    now: Total
    better: tuple[tuple[Keys, Total], ...]
    no_better: tuple[Keys, ...]
    refused: tuple[tuple[Keys, str], ...]
    notes: tuple[str, ...]


def advise(stack: str, trace: str, batch_ms: Sequence[str], *, as_json: bool) -> None:
    """Print what changes of `triton-eks:autoscaling` would come to on a trace. Raises Failure."""
    found, name = _advice(stack, trace, batch_ms)
    if as_json:
        print_json({"stack": stack, "trace": name, **_document(found)})
        return
    console = output(soft_wrap=True)
    console.print(f"{stack} under {name}: changes of {_KEY}, each by itself, the best first\n")
    console.print(f"{'missed SLO':>10}  {'GPU-hours':>10}  {'US$':>10}")
    console.print(_line(found.now, "as it is"))
    for keys, total in found.better:
        console.print(_line(total, pasted(keys)))
    if not found.better:
        console.print("\nNone of them is better.")
    if found.no_better:
        console.print(f"\nNeither fewer misses nor fewer GPU-hours: {'; '.join(map(pasted, found.no_better))}")
    for keys, why in found.refused:
        console.print(f"\nNot tried, because the stack would be refused: {pasted(keys)}\n  {why}")
    if found.better:
        console.print("\nPaste one, and ask again: two changes together do not come to the sum of both.")
    for note in found.notes:
        console.print(note)
    console.print(page.SERVERS_ARE_A_MODEL)


def pasted(keys: Keys) -> str:
    """Return the line of a stack file. Half of a start is what faster starts are worth, and nobody's choice."""
    ((key, value),) = keys.items()
    return f"{key}: {_flow(value)}{'  # only where starts are as fast' if key == 'startSeconds' else ''}"


def changes(settings: Settings, section: Keys, answered: Mapping[str, float]) -> Iterator[Keys]:
    """Yield what is tried: bounds, warm and spare pods, the wait before fewer, the start, and how busy instances may be.

    `answered`: requests/s of a pod, of each model that was measured; of them, a target of requests is tried.
    """
    bounds = settings.autoscaling
    assert bounds is not None, "the caller has looked"
    yield {"minReplicas": bounds.min_replicas + 1}
    if bounds.min_replicas > 1:
        yield {"minReplicas": bounds.min_replicas - 1}
    yield {"maxReplicas": math.ceil(1.5 * bounds.max_replicas)}
    if settings.node_autoscaler != "none":
        yield {"warmPods": bounds.warm_pods + 1}
        if bounds.warm_pods:
            yield {"warmPods": bounds.warm_pods - 1}
    if settings.pod_autoscaler == "keda":
        spare = max(spare_pods(settings, wants) for wants in settings.models.serving.values())
        yield {"sparePods": math.floor(spare) + 1}
        if spare:
            yield {"sparePods": math.ceil(spare) - 1}
    look_back = behavior(settings)["scaleDown"]["stabilizationWindowSeconds"]
    yield {"scaleDownAfterSeconds": look_back // 2}
    if look_back < _LONGEST_LOOK_BACK_SECONDS:
        yield {"scaleDownAfterSeconds": min(2 * look_back, _LONGEST_LOOK_BACK_SECONDS)}
    yield {"startSeconds": math.ceil(start_seconds(settings) / 2)}
    given = section.get("targets") or {}
    models = [model for model in sorted(settings.models.serving) if model not in settings.models.ensembles]
    for share in _BUSY_SHARES:
        targets = dict(given)
        for model in models:
            instances = instances_per_pod(settings, model, settings.models.serving[model])
            targets[model] = {**targets.get(model, {}), "busy": round(share * instances, 3)}
        yield {"targets": targets}
    if answered:
        kept = {model: {key: one for key, one in target.items() if key != "busy"} for model, target in given.items()}
        rates = {model: {"rate": float(f"{BUSY_SHARE_BESIDE_SPARE * rate:.3g}")} for model, rate in sorted(answered.items())}
        yield {"targets": {**kept, **{model: {**kept.get(model, {}), **rate} for model, rate in rates.items()}}}


def answers(found: Sequence[Plan]) -> dict[str, float]:
    """Return the requests/s of a pod, of each model that was measured: of the slowest fleet's, for all have one target."""
    slowest: dict[str, float] = {}
    for model in (model for plan in found for model in plan.models if model.service.source != ASSUMED):
        slowest[model.name] = min(model.service.capacity, slowest.get(model.name, math.inf))
    return slowest


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
    section = stack_file.decoded(config[_KEY])
    tried: list[tuple[Keys, Total]] = []
    refused = []
    for keys in changes(settings, section, answers(found)):
        try:
            changed = load({**config, _KEY: {**section, **keys}}, stack)
        except SettingsError as error:
            refused.append((keys, str(error.problems[0])))
            continue
        of_change = simulated(plans(changed, table, evidence, given), sent)
        tried.append((keys, _total(of_change.outcomes.values())))
    better = sorted((one for one in tried if not one[1].is_no_better_than(now)), key=lambda one: one[1].rank)
    no_better = tuple(keys for keys, total in tried if total.is_no_better_than(now))
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
        "advice": [{"autoscaling": keys, **_figures(total)} for keys, total in found.better],
        "noBetter": list(found.no_better),
        "refused": [{"autoscaling": keys, "why": why} for keys, why in found.refused],
        "notes": list(found.notes),
    }


def _figures(total: Total) -> dict[str, float | None]:
    shown = dataclasses.replace(total, usd=None if total.usd is None else round(total.usd, 2))
    return {"missedShare": round(shown.missed_share, 6), "gpuHours": round(shown.gpu_hours, 3), "usd": shown.usd}


def _line(total: Total, what: str) -> str:
    usd = page.UNKNOWN if total.usd is None else f"{total.usd:,.2f}"
    return f"{total.missed_share:>10.2%}  {total.gpu_hours:>10,.1f}  {usd:>10}  {what}"


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_flow(one)}" for key, one in value.items()) + "}"
    return f"{value:g}" if isinstance(value, float) else str(value)
