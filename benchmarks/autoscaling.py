"""Compare rules of autoscaling on the samples of `twin replay`, in virtual time, and print a table for docs/replay.md.

    python benchmarks/autoscaling.py [--trace steps] [--start 240]

The servers are simulated: the page says what that leaves out. Every rule has the same pods, nodes, bounds and requests.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import typer

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))  # run as a program, from the checkout

from spec.prometheus.timing import NODE_START_SECONDS  # noqa: E402
from spec.settings import load, read_config  # noqa: E402
from spec.stack_names import stack_file  # noqa: E402
from stackctl.cost import prices  # noqa: E402
from twin.replay import samples  # noqa: E402
from twin.replay.capacity import Starts  # noqa: E402
from twin.replay.controllers import Controller, Keda, Seen  # noqa: E402
from twin.replay.hpa import Autoscaler, by_pods_metric  # noqa: E402
from twin.replay.outcome import Outcome  # noqa: E402
from twin.replay.plan import Number, Plan, plans  # noqa: E402
from twin.replay.prometheus import Target  # noqa: E402
from twin.replay.simulation import simulate  # noqa: E402
from twin.replay.traces import Rates, Trace  # noqa: E402

MODEL, PEAK = "classify", 400.0
BATCH_MS = (25.0, 100.0)
"""Of one request and of a batch of 8, with an SLO of 200 ms: 80 requests/s a pod."""
FEWEST, MOST = 2, 12
STARTS = (30, 240, 600)
GPU_BUSY = 0.8
QUEUE = 5
QUEUE_US = 50
"""https://github.com/triton-inference-server/server/blob/e1db8a603d863b1317ee859bdeea2be19959462e/deploy/k8s-onprem/values.yaml"""
ORACLE_SHARE = 0.85
"""Of what its pods can answer, the most that the oracle lets come."""


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
        values = seen.values["number"]
        missing = seen.current - seen.unready - len(values)
        asked = by_pods_metric(values, self._target, seen.current, missing=missing, unready=seen.unready)
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


def queue_us(target: Target, _now: float) -> float | None:
    """Return the mean wait of a request in the last two scrapes, by Little's law: those that wait, over those answered."""
    recent = list(target.samples)[-2:]
    if len(recent) < 2:
        return None
    before, after = recent
    waited = (before.pending + after.pending) / 2 * (after.at - before.at)
    return 1e6 * waited / (1 + after.successes - before.successes)


def ours(start_seconds: int, warm_pods: int) -> Plan:
    """Return prod with one model, its derived targets, and this measured start."""
    file = stack_file("prod")
    config: dict[str, Any] = dict(read_config((REPOSITORY / file).read_bytes(), file))
    serving = {"device": "cpu", "sloP95Ms": 200, "expectedRate": PEAK / 2, "peakRate": PEAK, "maxBatchSize": 8}
    config["triton-eks:models"] = {"oldReleaseDays": 90, "serving": {MODEL: serving}}
    config["triton-eks:gpu"]["pools"][0]["max"] = MOST + 2
    config["triton-eks:autoscaling"] = {
        "minReplicas": FEWEST,
        "maxReplicas": MOST,
        "startSeconds": start_seconds,
        "warmPods": warm_pods,
    }
    settings = load(config, "prod")
    (plan,) = plans(settings, prices.load(settings.region), {}, {MODEL: BATCH_MS})
    node = round(start_seconds * NODE_START_SECONDS / 300)
    return dataclasses.replace(plan, starts=Starts(node, start_seconds - node))


def rules(start_seconds: int, trace: Trace) -> Mapping[str, Plan]:
    """Return a plan for each rule."""
    plain = ours(start_seconds, 0)

    def other(controller: Callable[[], Controller], read: Callable[[Target, float], float | None] | None) -> Plan:
        numbers = (Number("number", MODEL, read),) if read is not None else ()
        return dataclasses.replace(plain, controller=controller, numbers=numbers)

    capacity = plain.models[0].service.capacity
    scaled, signals = cast(partial[Keda], plain.controller).args
    unpaced = {**scaled, "advanced": {"horizontalPodAutoscalerConfig": {"behavior": None}}}
    return {
        "ours": plain,
        "ours, default pace": dataclasses.replace(plain, controller=partial(Keda, unpaced, signals)),
        "ours, one warm pod": ours(start_seconds, 1),
        "GPU utilisation 80 %": other(partial(OnOneNumber, GPU_BUSY), Target.busy),
        "queue, 5 on average": other(partial(OnOneNumber, QUEUE), Target.pending),
        "queue time, 50 µs": other(partial(OnOneNumber, QUEUE_US), queue_us),
        "oracle": other(partial(Oracle, trace.rates[MODEL], start_seconds, capacity), None),
    }


def main(
    trace: Annotated[str | None, typer.Option(help="one of the samples; default: all")] = None,
    start: Annotated[int | None, typer.Option(help="seconds of a start; default: 30, 240 and 600")] = None,
) -> None:
    """Print misses and GPU-hours of every rule, as Markdown."""
    for seconds in (start,) if start is not None else STARTS:
        print(f"\nStart of a pod in {seconds} s:\n", flush=True)
        for number, name in enumerate((trace,) if trace is not None else samples.NAMES):
            sent = samples.sample(name, {MODEL: PEAK})
            found = {rule: simulate(plan, sent, everybody={MODEL: PEAK}) for rule, plan in rules(seconds, sent).items()}
            if number == 0:
                print(f"| | {' | '.join(found)} |\n|---|{'---:|' * len(found)}")
            print(f"| `{name}` | {' | '.join(map(_cell, found.values()))} |", flush=True)


def _cell(outcome: Outcome) -> str:
    return f"{outcome.missed_share:.2%}, {outcome.gpu_hours:.1f} h"


if __name__ == "__main__":
    typer.run(main)
