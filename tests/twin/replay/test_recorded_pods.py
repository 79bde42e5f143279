"""A whole replay beside recorded pods: of the load alone, with the model of Triton, pods and Prometheus in between."""

import json
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest

from spec.scaling.signal import BUSY, PENDING, Signal
from twin.replay import simulation
from twin.replay.capacity import Pool, Starts
from twin.replay.controllers import Keda
from twin.replay.plan import Model, Number, Plan
from twin.replay.prometheus import Target
from twin.replay.service import Service
from twin.replay.traces import Trace

FOLDER = Path(__file__).parent / "recordings"
MODEL = "timed_batch"
SERVICE = Service(instances=1, batch=8, one=0.155, full=0.19, source="twin/models/timed_batch/config.pbtxt")
START_SECONDS = 10


def answered(recording: Any) -> Trace:
    """The requests that the pods answered, from one scrape to the next."""
    rates = np.zeros(int(recording["seconds"]))
    for samples in recording["samples"]["nv_inference_request_success"].values():
        for (begins, before), (ends, after) in pairwise(samples):
            rates[int(begins) : int(ends)] += (after - before) / (ends - begins)
    return Trace("recorded", {MODEL: rates})


def plan(recording: Any) -> Plan:
    spec = recording["scaledObject"]
    triggers = [trigger for trigger in spec["triggers"] if trigger["name"].endswith(MODEL)]
    targets = {trigger["name"].partition("-")[0]: float(trigger["metadata"]["threshold"]) for trigger in triggers}
    pending, busy = Signal(PENDING, MODEL, targets["pending"]), Signal(BUSY, MODEL, targets["busy"])
    return Plan(
        fleet="triton",
        models=(Model(MODEL, SERVICE, slo_seconds=2, timeout_seconds=6, expected=30, peak=60, share=1),),
        numbers=(Number(pending.name, MODEL, Target.pending), Number(busy.name, MODEL, Target.busy)),
        controller=partial(Keda, {**spec, "triggers": triggers}, (pending, busy)),
        fewest=1,
        pool=Pool(1, most_nodes=4, fewest_nodes=4, fixed=True, warm_pods=0, gpus_per_node=1, usd_per_hour=None),
        starts=Starts(0, START_SECONDS),
        notes=(),
    )


def pod_seconds(wanted: Sequence[tuple[float, int]], seconds: float) -> float:
    return sum(pods * (ends - begins) for (begins, pods), (ends, _) in pairwise([*wanted, (seconds, 0)]))


@pytest.mark.parametrize(("name", "times"), [("keda-rises", 1.06), ("keda-falls", 1.03)])
def test_hours_of_pods_are_near_the_recorded_ones(name: str, times: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not equal: scrapes, polls and looks begin at other seconds than the real ones did, here at those of eight seeds."""
    monkeypatch.setattr(simulation, "SETTLE_SECONDS", 120)
    recording = json.loads((FOLDER / f"{name}.json").read_text())
    load, made = answered(recording), plan(recording)
    found = [
        simulation.simulate(made, load, everybody={MODEL: 1}, sync_seconds=recording["syncSeconds"], seed=seed)
        for seed in range(8)
    ]
    recorded = pod_seconds(recording["wanted"], load.seconds)
    assert mean(pod_seconds(one.wanted, load.seconds) for one in found) / recorded == pytest.approx(times, abs=0.01)
    assert {max(pods for _, pods in one.wanted) for one in found} == {max(pods for _, pods in recording["wanted"])}
