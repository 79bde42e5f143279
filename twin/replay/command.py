"""Run `twin replay`: the outcome of a trace of requests with a stack's settings, and with earlier settings."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from console.terminal import output, print_json
from spec import reading
from spec.failure import NOT_TRIED, Failure
from spec.reading import Unreadable
from spec.settings import Settings, SettingsError, load, read_config
from spec.wording import did_you_mean
from stackctl.cost import prices
from stackctl.cost.throughput import measured
from stackctl.stack_settings import NoSuchRevision, settings_at, settings_of
from twin.replay import page, samples, traces
from twin.replay.outcome import Outcome, document
from twin.replay.plan import Plan, plans
from twin.replay.simulation import check, simulate
from twin.replay.traces import EVERY, Trace

_FORM = "give a model and the milliseconds of a batch of one and of a full batch, like filetype=4:20"
_LONGEST_BATCH_MS = 600_000


class NoReplay(Failure):
    """An invalid request for a replay; the text gives the remedy."""

    exit_code = NOT_TRIED


@dataclass(frozen=True)
class Replayed:
    """The outcome by fleet, and the assumptions behind it."""

    outcomes: dict[str, Outcome]
    notes: tuple[str, ...]


def replay(stack: str, trace: str, against: str | None, batch_ms: Sequence[str], *, as_json: bool) -> None:
    """Print the outcome of a trace, and its outcome with the settings `against`. Raises Failure."""
    given = batch_times(batch_ms)
    settings = settings_of(stack)
    found = plans(settings, prices.load(settings.region), measured(settings), given)
    sent = trace_of(trace, found)
    check(sent, expected(found), stack)
    after, before = _after_and_before(stack, found, settings, sent, against, given)
    if as_json:
        _print_document(stack, sent, after, before)
        return
    console = output(soft_wrap=True)
    for fleet, outcome in after.outcomes.items():
        title = f"{stack}, {fleet}: {sent.name}, {_duration(outcome.seconds)}, {outcome.requests:,.0f} requests"
        console.print(page.table(title, outcome, before.outcomes.get(fleet) if before is not None else None))
        for line in page.plot(outcome):
            console.print(line, markup=False)
    for note in after.notes:
        console.print(note, markup=False)
    console.print(page.SERVERS_ARE_A_MODEL, markup=False)


def _after_and_before(
    stack: str,
    found: list[Plan],
    settings: Settings,
    sent: Trace,
    against: str | None,
    given: Mapping[str, tuple[float, float]],
) -> tuple[Replayed, Replayed | None]:
    """Return the outcome of the trace, and its outcome with the settings `against`; None without them."""
    if against is None:
        return simulated(found, sent), None
    then = _settings_against(against, stack)
    if then == settings:
        after = simulated(found, sent)
        return after, after  # most changes do not touch the settings of the replay
    of_then = plans(then, prices.load(then.region), measured(then), _known(given, then))
    common = _without_unknown(sent, of_then)
    if common.rates:
        with ProcessPoolExecutor(max_workers=2) as processes:  # a month takes minutes
            after, before = processes.map(simulated, (found, of_then), (sent, common))
        return after, before
    after = simulated(found, sent)
    note = f"there is no before: the settings of {against} serve none of the models of {sent.name}"
    return dataclasses.replace(after, notes=(*after.notes, note)), None


def batch_times(texts: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return the batch times in `--batch-ms`, by model. Raises NoReplay."""
    found: dict[str, tuple[float, float]] = {}
    for text in texts:
        model, _, times = text.partition("=")
        one, _, full = times.partition(":")
        least, most = traces.number(one), traces.number(full)
        if least is None or most is None:
            raise NoReplay(f"--batch-ms {text}: {_FORM}")
        if not model or model in found or not 0 < least <= most <= _LONGEST_BATCH_MS:
            raise NoReplay(f"--batch-ms {text}: {_FORM}, the first no longer than the second, each model once")
        found[model] = (least, most)
    return found


def trace_of(trace: str, found: list[Plan]) -> Trace:
    """Return a sample trace for these models, or the trace in a file. Raises NoReplay, TraceUnusable."""
    if trace in samples.NAMES:
        return samples.sample(trace, {model.name: model.peak for plan in found for model in plan.models})
    if not os.path.lexists(trace):
        near, known = did_you_mean(trace, samples.NAMES), ", ".join(samples.NAMES)
        raise NoReplay(f"--trace {trace}: there is no such file, nor such a sample; {near}samples are {known}")
    return traces.read(Path(trace))


def _settings_against(against: str, stack: str) -> Settings:
    if os.path.lexists(against) and not Path(against).is_dir():  # a branch may have the name of a directory
        try:
            return load(read_config(reading.file(Path(against)), against), stack)
        except Unreadable as error:
            raise NoReplay(f"--against {against}: {error.problem}") from None
        except SettingsError as error:
            raise SettingsError(against, error.problems) from None
    found = settings_at(against, stack)
    if found is None:
        raise NoSuchRevision(f"--against {against}: that revision has no stack {stack}")
    return found


def expected(found: list[Plan]) -> dict[str, float]:
    """Return the requests/s that the stack expects for each model."""
    return {model.name: model.expected for plan in found for model in plan.models}


def _known(given: Mapping[str, tuple[float, float]], settings: Settings) -> dict[str, tuple[float, float]]:
    return {model: times for model, times in given.items() if model in settings.models.serving}


def _without_unknown(trace: Trace, found: list[Plan]) -> Trace:
    """Return the trace without the models that the earlier settings do not serve."""
    served = expected(found)
    return dataclasses.replace(
        trace, rates={model: rates for model, rates in trace.rates.items() if model is EVERY or model in served}
    )


def simulated(found: list[Plan], trace: Trace) -> Replayed:
    """Return the outcome of a trace in each fleet."""
    everybody = expected(found)
    outcomes = {plan.fleet: simulate(plan, trace, everybody=everybody) for plan in found}
    return Replayed(outcomes, tuple(dict.fromkeys(note for plan in found for note in plan.notes)))


def _print_document(stack: str, trace: Trace, after: Replayed, before: Replayed | None) -> None:
    print_json(
        {
            "stack": stack,
            "trace": trace.name,
            "after": _fleets(after),
            "before": _fleets(before) if before is not None else None,
            "notes": list(after.notes),
        }
    )


def _fleets(replayed: Replayed) -> dict[str, object]:
    return {fleet: document(outcome) for fleet, outcome in replayed.outcomes.items()}


def _duration(seconds: int) -> str:
    hours, rest = divmod(seconds, 3600)
    days, hours = divmod(hours, 24)
    parts = ((days, "d"), (hours, "h"), (rest // 60, "min"), (rest % 60, "s"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number) or "0 s"
