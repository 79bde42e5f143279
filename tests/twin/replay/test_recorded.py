"""The ports compared with a recorded KEDA, HorizontalPodAutoscaler and Prometheus.

`benchmarks/autoscaler_recording.py` made the recordings on a twin; each contains its time, revision and command.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest

from benchmarks.autoscaler_recording import seconds_of_step
from spec.prometheus.recording import PENDING
from tests.twin.replay.recorded import NAMES, REJECTED, Times, read, times
from twin.replay.hpa import Autoscaler, by_average_value
from twin.replay.keda import ScaledObject, autoscaler_of
from twin.replay.prometheus import rate
from twin.services.release_sources import SLOW_MODEL

LOOK_SECONDS = 1.2
"""The recorder looks twice a second; on a busy machine once."""
BEGINNING_SECONDS = 10.0
"""Beginning of a recording: on a new twin, KEDA does not poll as regularly yet."""
LEAD_SECONDS = 150.0
"""Time before a section: longer than the autoscaler's memory."""

Samples = Mapping[str, Sequence[Sequence[float]]]
SECTIONS = [(name, *section) for name in NAMES for section in read(name).get("sections", [("all", 0, math.inf)])]


@pytest.fixture(params=NAMES)
def recorded(request: pytest.FixtureRequest) -> Any:
    return read(request.param)


def at(changes: Sequence[Sequence[float]], moment: float) -> float | None:
    """Return the value at a moment; None before the first change."""
    place = bisect_right(changes, moment, key=lambda change: change[0])
    return changes[place - 1][1] if place else None


def clocks(recording: Any, begins: float, ends: float) -> Iterator[tuple[float, float]]:
    """Yield periods and first moments of syncs that match the recorded changes, each made at a sync.

    A sync begins a period after the end of the previous one (`rate_limiters.go` of the controller), so about 0.1 s later.
    """
    changes = [moment for moment, _ in recording["wanted"][1:] if begins <= moment < ends]
    for hundredths in range(0, 30, 2):
        period = recording["syncSeconds"] + hundredths / 100
        for tenths in range(int(10 * period)):
            first = begins + tenths / 10
            if all((moment - first) % period <= LOOK_SECONDS for moment in changes):
                yield period, first


def decisions(recording: Any, period: float, first: float, ends: float) -> list[tuple[float, int]]:
    """Return the port's decision at each sync, from the real autoscaler's numbers."""
    autoscaler, made = Autoscaler(autoscaler_of(recording["scaledObject"])), []
    current = int(at(recording["wanted"], first) or 0)
    targets = {trigger["name"]: float(trigger["metadata"]["threshold"]) for trigger in recording["scaledObject"]["triggers"]}
    for look in range(int((ends - first) / period)):
        moment = first + look * period
        told = {name: at(changes, moment) for name, changes in recording["values"].items()}
        asked = [None if value is None else by_average_value(value, targets[name], current) for name, value in told.items()]
        current = autoscaler.decide(moment, current, asked)
        made.append((moment, current))
    return made


@pytest.mark.parametrize(("name", "section", "begins", "ends"), SECTIONS, ids=lambda value: str(value))
def test_decisions_are_those_of_the_real_autoscaler_within_a_sync_period(
    name: str, section: str, begins: float, ends: float
) -> None:
    """99 of 100 decisions match, with every clock that the real one may have had."""
    recording = read(name)
    wanted, until, shares = recording["wanted"], min(ends, recording["seconds"]), []
    for period, first in clocks(recording, max(0.0, begins - LEAD_SECONDS), until):
        made = [one for one in decisions(recording, period, first, until) if one[0] >= begins]
        same = [pods in {at(wanted, moment + offset) for offset in (-period, 0, period)} for moment, pods in made]
        shares.append(sum(same) / len(same))
    assert shares, f"{section}: the changes are those of no clock"
    assert any(begins <= changed < until for changed, _ in wanted[1:]), f"{section}: where nothing changed nothing shows"
    assert min(shares) >= 0.99


def test_the_numbers_that_keda_tells_are_sums_of_the_recorded_rules_as_of_its_last_question(recorded: Any) -> None:
    scaled, when, samples = ScaledObject(recorded["scaledObject"]), times(recorded), recorded["samples"]
    changes = [pair for found in recorded["values"].values() for pair in pairwise(found)]
    polls = sorted({moment for (_, before), (moment, after) in changes if None not in (before, after)})
    for kind, summed in (
        ("pending", mean_total if when.averages else total),
        ("busy", total),
    ):
        name = f"{kind}-{SLOW_MODEL}"
        (query,) = (one["metadata"]["query"] for one in recorded["scaledObject"]["triggers"] if one["name"] == name)
        added, series = float(query.partition(" + ")[2] or 0), samples[PENDING if kind == "pending" else when.busy]
        # Its pod has requests from before the recording, whose numbers are missing.
        since = when.window if "slowPod" in recorded else 0
        for moment in (poll for poll in polls if poll >= since):
            expected = {round(summed(series, moment - early, when) + added, 3) for early in (0, LOOK_SECONDS)}
            # A look reads the numbers sequentially, and KEDA may poll meanwhile: the next look has this one's answer.
            told = {at(recorded["values"][name], moment + later) for later in (0, LOOK_SECONDS)}
            assert told & {None, *expected}, (name, moment)
    gaps = {(second - first) / scaled.polling_seconds for first, second in pairwise(polls) if first > BEGINNING_SECONDS}
    late = LOOK_SECONDS / scaled.polling_seconds
    assert all(math.isclose(gap, round(gap), abs_tol=late) for gap in gaps), "questions come every pollingInterval"


def total(pods: Samples, moment: float, when: Times) -> float:
    """Return the sum of each pod's newest sample within one evaluation."""
    newest = [[sample for sample in samples if sample[0] <= moment][-1:] for samples in pods.values()]
    return sum(value for found in newest for taken, value in found if taken > moment - when.every - 1)


def mean_total(pods: Samples, moment: float, when: Times) -> float:
    """Return the sum of each pod's mean sample in the window, including deleted pods."""
    within = [[value for taken, value in samples if moment - when.window < taken <= moment] for samples in pods.values()]
    return sum(sum(values) / len(values) for values in within if values)


def test_recorded_rates_are_those_of_the_scraped_samples(recorded: Any) -> None:
    samples, when = recorded["samples"], times(recorded)
    compared = 0
    for pod, evaluated in samples[when.busy].items():
        for moment, value in evaluated:
            rates = [
                rate_of(samples[metric][pod], moment, when)
                for metric in (
                    "nv_inference_compute_infer_duration_us",
                    "nv_inference_exec_count",
                    "nv_inference_request_success",
                )
            ]
            if any(one is None for one in rates):
                continue
            seconds, executions, successes = (one or 0.0 for one in rates)
            rejected = rate_of(samples[REJECTED][pod], moment, when) or 0.0 if REJECTED in samples else 0.0
            busy = seconds / 1e6 * executions / successes * (1 + rejected / successes) if successes else 0
            assert value == pytest.approx(busy, rel=1e-6, abs=1e-9)
            compared += 1
    assert compared > 20


def rate_of(scraped: Sequence[Sequence[float]], moment: float, when: Times) -> float | None:
    """Return the rate over the window; None without its recorded beginning, or without two samples."""
    if moment - when.window < 0 and scraped[0][0] < when.every + 1:
        return None
    window = [(taken, value) for taken, value in scraped if moment - when.window < taken <= moment]
    if len(window) < 2:
        return None
    return rate([taken for taken, _ in window], [value for _, value in window], moment, when.window)


def test_a_second_pod_is_wanted_within_thirty_seconds_of_a_step_of_load() -> None:
    recording = read("keda-steps")
    found = [seconds_of_step(recording, begins) for _, begins, _ in recording["sections"]]
    assert found == [(3.4, 5.6, 7.1, 8.7, 10.8), (3.3, 5.2, 7.0, 9.6, 11.7), (2.6, 9.6, 11.2, 14.9, 17.0)]
    assert all(sorted(one) == list(one) and one[3] <= 30 for one in found)
