"""A whole replay compared with recorded pods: from the load only, with models of Triton, pods and Prometheus."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, pairwise, repeat
from typing import Any

import numpy as np
import pytest

from spec.scaling.signal import NEEDED, PENDING, Recording, Signal
from tests.twin.replay.recorded import NAMES, OLDER, PRESENT, REJECTED, Times, read, times
from twin.replay import simulation
from twin.replay.capacity import Pool, Starts
from twin.replay.controllers import Keda
from twin.replay.plan import Model, Number, Plan
from twin.replay.prometheus import Target
from twin.replay.service import Service
from twin.replay.simulation import Clocks
from twin.replay.traces import SlowPod, Trace

MODEL = "timed_batch"
SERVICE = Service(instances=1, batch=8, one=0.155, full=0.19, source="twin/models/timed_batch/config.pbtxt")
START_SECONDS = 10
ANSWERED = "nv_inference_request_success"
WARMED_UP = 9
"""Requests of `warmup` and golden.json that a ready pod has answered."""


def newest_pending(target: Target, _now: float) -> float | None:
    return target.samples[-1].pending if target.samples else None


TRIGGERS: Mapping[Times, Mapping[str, tuple[Recording, Callable[[Target, float], float | None]]]] = {
    OLDER: {"pending": (PENDING, newest_pending), "busy": (NEEDED, Target.busy)},
    PRESENT: {"pending": (PENDING, Target.pending), "busy": (NEEDED, Target.needed)},
}


def sent(recording: Any) -> Trace:
    """Return the requests that the pods answered or rejected, between scrapes."""
    rates = np.zeros(int(recording["seconds"]))
    for counter in (ANSWERED, REJECTED):
        for samples in recording["samples"].get(counter, {}).values():
            first, had = samples[0]
            # A pod of a twin without earlier load: its answers before the first scrape. For others they are unknown.
            fresh = counter == ANSWERED and "sections" in recording
            known = [(max(0.0, first - times(recording).every), min(WARMED_UP, had))] if fresh else []
            for (begins, before), (ends, after) in pairwise([*known, *samples]):
                rates[int(begins) : int(ends)] += (after - before) / (ends - begins)
    rates[0] = 0  # and no load before it
    slow = SlowPod(*map(round, recording["slowPod"]), slow_factor(recording)) if "slowPod" in recording else None
    return Trace("recorded", {MODEL: rates}, slow_pod=slow)


def slow_factor(recording: Any) -> float:
    """Return the slow pod's factor of execution time, from the samples while it was slow."""
    begins, ends = recording["slowPod"]
    names = (ANSWERED, "nv_inference_exec_count", "nv_inference_compute_infer_duration_us")
    oldest = min(recording["samples"][ANSWERED], key=lambda pod: recording["samples"][ANSWERED][pod][0][0])
    within = [[value for at, value in recording["samples"][name][oldest] if begins < at < ends] for name in names]
    answered, executions, us = (values[-1] - values[0] for values in within)
    batch = answered / executions
    usual = SERVICE.one + (SERVICE.full - SERVICE.one) / (SERVICE.batch - 1) * (batch - 1)
    return us / 1e6 / answered / usual


def plan(recording: Any) -> Plan:
    spec, known = recording["scaledObject"], TRIGGERS[times(recording)]
    triggers = [trigger for trigger in spec["triggers"] if trigger["name"].endswith(MODEL)]
    signals = []
    for trigger in triggers:
        target = float(trigger["metadata"]["threshold"])
        added = float(trigger["metadata"]["query"].partition(" + ")[2] or 0)
        of, _ = known[trigger["name"].partition("-")[0]]
        signals.append(Signal(of, MODEL, target, spare=round(added / target)))
    numbers = tuple(Number(signal.name, MODEL, known[signal.name.partition("-")[0]][1]) for signal in signals)
    most, window = spec["maxReplicaCount"], times(recording).window
    return Plan(
        fleet="triton",
        models=(
            Model(MODEL, SERVICE, slo_seconds=2, timeout_seconds=6, expected=30, peak=60, share=1, window_seconds=window),
        ),
        numbers=numbers,
        controller=partial(Keda, {**spec, "triggers": triggers}, signals),
        fewest=1,
        pool=Pool(1, most_nodes=most, fewest_nodes=most, fixed=True, warm_pods=0, gpus_per_node=1, usd_per_hour=None),
        starts=Starts(0, START_SECONDS),
        notes=(),
    )


def clocks(recording: Any, sync: int) -> Clocks:
    """Return the clocks of the real ones; the autoscaler's clock is not recorded.

    They matter: if the same load is scraped just after the rules, the pod is wanted one period later.
    """
    every = times(recording).every
    scrapes = sorted(samples[0][0] for samples in recording["samples"][ANSWERED].values())
    ((evaluated, _), *_) = next(iter(recording["samples"][PENDING.series].values()))
    polled = min(moment for changes in recording["values"].values() for moment, _ in changes[1:])
    first = chain((int(scrape) % every for scrape in scrapes), repeat(0))
    return Clocks(first, int(evaluated) % every, int(polled) % every, sync)


def pod_seconds(wanted: Sequence[Sequence[float]], begins: float, ends: float) -> float:
    """Return the pod-seconds between two moments."""
    until = [moment for moment, _ in wanted[1:]] + [math.inf]
    return sum(
        pods * max(0.0, min(end, ends) - max(moment, begins)) for (moment, pods), end in zip(wanted, until, strict=True)
    )


SLOW = "keda-slow-pod"
FIVE_TRACES = ("keda-traces", SLOW)
"""Recordings of the samples: four in a row, and the one with a slow pod."""


def replayed(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[float, float]]:
    """Yield pod-seconds, replayed and recorded, for each second at which the autoscaler may look."""
    recording = read(name)
    when = times(recording)
    monkeypatch.setattr(simulation, "SETTLE_SECONDS", 120)
    monkeypatch.setattr(simulation, "TRITON_SCRAPE_SECONDS", when.every)
    load, made, period = sent(recording), plan(recording), recording["syncSeconds"]
    for sync in range(period):
        found = simulation.simulate(made, load, everybody={MODEL: 1}, sync_seconds=period, clocks=clocks(recording, sync))
        most, real = (max(pods for _, pods in wanted) for wanted in (found.wanted, recording["wanted"]))
        assert most == real
        yield pod_seconds(found.wanted, 0, load.seconds), pod_seconds(recording["wanted"], 0, load.seconds)


@pytest.mark.parametrize("names", [FIVE_TRACES, *((name,) for name in NAMES if name != SLOW)], ids=str)
def test_hours_of_pods_are_within_five_percent_of_the_recorded_ones(
    names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For every second at which the autoscaler may look."""
    for of_each in zip(*(list(replayed(name, monkeypatch)) for name in names), strict=True):
        found, recorded = (sum(seconds) for seconds in zip(*of_each, strict=True))
        assert found / recorded == pytest.approx(1, abs=0.05)


def test_hours_of_pods_beside_a_slow_pod_are_by_themselves_within_six_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its load is exactly at the limit of three pods, so chance decides when the fourth one is removed."""
    for found, recorded in replayed(SLOW, monkeypatch):
        assert found / recorded == pytest.approx(1, abs=0.06)


def test_a_slow_pod_that_the_replay_did_not_know_of_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = read(SLOW)
    monkeypatch.setattr(simulation, "SETTLE_SECONDS", 120)
    even = dataclasses.replace(sent(recording), slow_pod=None)
    found = simulation.simulate(plan(recording), even, everybody={MODEL: 1}, sync_seconds=5, clocks=clocks(recording, 0))
    assert pod_seconds(found.wanted, 0, even.seconds) < 0.85 * pod_seconds(recording["wanted"], 0, even.seconds)
