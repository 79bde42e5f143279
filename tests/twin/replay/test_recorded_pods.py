"""A whole replay beside recorded pods: of the load alone, with the model of Triton, pods and Prometheus in between."""

import json
import math
from collections.abc import Sequence
from functools import partial
from itertools import chain, pairwise, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spec.scaling.signal import NEEDED, PENDING, Signal
from twin.replay import prometheus, simulation
from twin.replay.capacity import Pool, Starts
from twin.replay.controllers import Keda
from twin.replay.plan import Model, Number, Plan
from twin.replay.prometheus import Target
from twin.replay.service import Service
from twin.replay.simulation import Clocks
from twin.replay.traces import Trace

FOLDER = Path(__file__).parent / "recordings"
MODEL = "timed_batch"
SERVICE = Service(instances=1, batch=8, one=0.155, full=0.19, source="twin/models/timed_batch/config.pbtxt")
START_SECONDS = 10
WARMED_UP = 9
"""Requests of `warmup` and of golden.json that a pod has answered when it is ready."""
SCRAPE_SECONDS, WINDOW_SECONDS = 15, 60
"""Of the Prometheus and its rules when they were recorded, which were those of one scrape for what waits."""


def pending(target: Target, _now: float) -> float | None:
    return None if target.gone or not target.samples else target.samples[-1].pending


TRIGGERS = {"pending": (PENDING, pending), "busy": (NEEDED, Target.busy)}


def answered(recording: Any) -> Trace:
    """The requests that the pods answered, from one scrape to the next."""
    rates = np.zeros(int(recording["seconds"]))
    for samples in recording["samples"]["nv_inference_request_success"].values():
        first, _ = samples[0]
        # A pod of a twin that had no load before: what it had answered when it was scraped first. Of the others none knows.
        known = [(max(0.0, first - SCRAPE_SECONDS), WARMED_UP)] if "sections" in recording else []
        for (begins, before), (ends, after) in pairwise([*known, *samples]):
            rates[int(begins) : int(ends)] += (after - before) / (ends - begins)
    rates[0] = 0  # nor was there any load before it
    return Trace("recorded", {MODEL: rates})


def plan(recording: Any) -> Plan:
    spec = recording["scaledObject"]
    triggers = [trigger for trigger in spec["triggers"] if trigger["name"].endswith(MODEL)]
    signals = []
    for trigger in triggers:
        target = float(trigger["metadata"]["threshold"])
        added = float(trigger["metadata"]["query"].partition(" + ")[2] or 0)
        of, _ = TRIGGERS[trigger["name"].partition("-")[0]]
        signals.append(Signal(of, MODEL, target, spare=round(added / target)))
    numbers = tuple(Number(signal.name, MODEL, TRIGGERS[signal.name.partition("-")[0]][1]) for signal in signals)
    most = spec["maxReplicaCount"]
    return Plan(
        fleet="triton",
        models=(Model(MODEL, SERVICE, slo_seconds=2, timeout_seconds=6, expected=30, peak=60, share=1),),
        numbers=numbers,
        controller=partial(Keda, {**spec, "triggers": triggers}, signals),
        fewest=1,
        pool=Pool(1, most_nodes=most, fewest_nodes=most, fixed=True, warm_pods=0, gpus_per_node=1, usd_per_hour=None),
        starts=Starts(0, START_SECONDS),
        notes=(),
    )


def clocks(recording: Any, sync: int) -> Clocks:
    """Return the seconds at which the real ones looked; that of the autoscaler's is in no recording.

    They decide: of the same load, a scrape that comes just after the rules wants the pod 15 s later than one before them.
    """
    scrapes = sorted(samples[0][0] for samples in recording["samples"]["nv_inference_request_success"].values())
    ((evaluated, _), *_) = next(iter(recording["samples"][PENDING.series].values()))
    polled = min(moment for changes in recording["values"].values() for moment, _ in changes[1:])
    first = chain((int(scrape) % SCRAPE_SECONDS for scrape in scrapes), repeat(0))
    return Clocks(first, int(evaluated) % SCRAPE_SECONDS, int(polled) % SCRAPE_SECONDS, sync)


def pod_seconds(wanted: Sequence[Sequence[float]], begins: float, ends: float) -> float:
    """Return the pods' seconds between two moments."""
    until = [moment for moment, _ in wanted[1:]] + [math.inf]
    return sum(
        pods * max(0.0, min(end, ends) - max(moment, begins)) for (moment, pods), end in zip(wanted, until, strict=True)
    )


@pytest.mark.parametrize("name", sorted(file.stem for file in FOLDER.glob("*.json")))
def test_hours_of_pods_are_within_five_percent_of_the_recorded_ones(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the second at which the autoscaler looks."""
    monkeypatch.setattr(simulation, "SETTLE_SECONDS", 120)
    monkeypatch.setattr(simulation, "TRITON_SCRAPE_SECONDS", SCRAPE_SECONDS)
    monkeypatch.setattr(simulation, "WINDOW_SECONDS", WINDOW_SECONDS)
    monkeypatch.setattr(prometheus, "WINDOW_SECONDS", WINDOW_SECONDS)
    recording = json.loads((FOLDER / f"{name}.json").read_text())
    load, made, period = answered(recording), plan(recording), recording["syncSeconds"]
    recorded = pod_seconds(recording["wanted"], 0, load.seconds)
    for sync in range(period):
        found = simulation.simulate(made, load, everybody={MODEL: 1}, sync_seconds=period, clocks=clocks(recording, sync))
        assert pod_seconds(found.wanted, 0, load.seconds) / recorded == pytest.approx(1, abs=0.05)
        most, real = (max(pods for _, pods in wanted) for wanted in (found.wanted, recording["wanted"]))
        assert abs(most - real) <= (name == "keda-traces"), "one pod more, or less, in the flash crowd"
