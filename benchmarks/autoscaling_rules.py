"""Autoscaling rules as plans of `twin replay`: ours with several settings, other projects' rules, and some with more
knowledge.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from spec.prometheus.timing import NODE_START_SECONDS
from spec.scaling.signal import BUSY_SHARE_BESIDE_BOUNDED_QUEUE, NEEDED, SPARE_PODS_BESIDE_BOUNDED_QUEUE
from spec.settings import load, read_config
from spec.stack_names import stack_file
from stackctl.cost import prices
from twin.replay.capacity import Starts
from twin.replay.controllers import Controller, Keda, Seen
from twin.replay.hpa import Autoscaler, by_average_value, by_pods_metric
from twin.replay.keda import autoscaler_of
from twin.replay.plan import Number, Plan, plans
from twin.replay.prometheus import Target
from twin.replay.traces import Rates, Trace

REPOSITORY = Path(__file__).resolve().parents[1]
NAME = "classify"
GPU_BUSY = 0.8
CPU_BUSY, CPUS = 0.8, 3.0
CPU_SECONDS = 0.00043
"""CPU seconds of a request in a pod whose model computes on a GPU.

Measured on the twin, not on a GPU node: tritonserver 2.51 and the stub of the Python model of twin/models, which waits
instead of computing. The load was 600 requests at 30 a second by gRPC.
"""
QUEUE = 5
QUEUE_US = 50
"""https://github.com/triton-inference-server/server/blob/e1db8a603d863b1317ee859bdeea2be19959462e/deploy/k8s-onprem/values.yaml"""
RATE_SHARE = 0.8
ORACLE_SHARE = 0.85
"""The largest load that the oracle accepts, as a share of its pods' capacity."""


@dataclass(frozen=True)
class Model:
    """`batch_ms`: milliseconds of one request, and of a full batch. `peak`: requests/s of five pods."""

    batch_ms: tuple[float, float]
    batch: int
    slo_ms: int
    peak: float


MODELS = {"batching": Model((25.0, 100.0), 8, 200, 400.0), "single": Model((400.0, 400.0), 1, 1000, 12.5)}
FEWEST, MOST, FAR_MORE = 2, 12, 40
OURS, AT_ONCE = "bounded queue", "at once"
NONE_TO_SPARE, LESS_TO_SPARE = "none to spare", "94 %, 0.4 pods to spare"
FLOOR, FLOOR_ON_RATE = "5 pods at least", "5 pods at least, on rate"
OF_PEAK = 5
"""Pods that the peak needs."""


class OnOneNumber:
    """A HorizontalPodAutoscaler with one Pods metric and the API's default pace."""

    poll_seconds: int | None = None

    def __init__(self, target: float) -> None:
        self._target = target
        self._autoscaler = Autoscaler({"minReplicas": FEWEST, "maxReplicas": MOST})

    def poll(self, seen: Seen) -> None:
        """Do nothing: `decide` reads the metric itself."""

    def decide(self, now: float, timestamp: float, seen: Seen) -> int:  # noqa: ARG002 - as the interface has it
        values = seen.values.get("number", ())
        missing = seen.current - seen.pending - len(values)
        asked = by_pods_metric(values, self._target, seen.current, missing=missing, pending=seen.pending)
        return self._autoscaler.decide(now, seen.current, [asked])


class ProductionStack:
    """The chart's ScaledObject: 5 waiting requests per pod, polled every 15 s, the API's default pace.

    https://github.com/vllm-project/production-stack/blob/a6c01db05f65f556235413ba8dbcfb0c01132fff/helm/values.yaml (`keda`).
    Its query has an element for each pod. KEDA refuses more than one element, so the original works with one pod only. Here
    they are added up. https://github.com/kedacore/keda/blob/v2.20.2/pkg/scalers/prometheus_scaler.go (`ExecutePromQuery`)
    """

    poll_seconds: int | None = 15

    def __init__(self) -> None:
        self._autoscaler = Autoscaler({"minReplicas": FEWEST, "maxReplicas": MOST})
        self._waiting: float | None = None

    def poll(self, seen: Seen) -> None:
        """Read the number of waiting requests."""
        self._waiting = seen.total("number")

    def decide(self, now: float, timestamp: float, seen: Seen) -> int:  # noqa: ARG002 - as the interface has it
        asked = None if self._waiting is None else by_average_value(self._waiting, QUEUE, seen.current)
        return self._autoscaler.decide(now, seen.current, [asked])


class Oracle:
    """Knows the load until a newly wanted pod can serve, and wants the pods for its maximum."""

    poll_seconds: int | None = None

    def __init__(self, rates: Rates, start_seconds: int, capacity: float) -> None:
        self._rates, self._ahead, self._each = rates, start_seconds + 30, capacity * ORACLE_SHARE

    def poll(self, seen: Seen) -> None:
        """Do nothing: the oracle knows the load."""

    def decide(self, now: float, timestamp: float, seen: Seen) -> int:  # noqa: ARG002 - as the interface has it
        second = max(0, int(now))
        most = float(self._rates[second : second + self._ahead].max(initial=0.0))
        return min(max(math.ceil(most / self._each), FEWEST), MOST)


class AtOnce:
    """Knows the load of this second, without scrapes, windows or chance, but not the next second's load.

    It wants as many pods as our rule for a model with a bounded queue, and has the same look-back. It cannot act while its
    pods start. No reactive rule that keeps no more pods before the load comes misses less.
    """

    poll_seconds: int | None = None

    def __init__(self, rates: Rates, capacity: float, spec: Mapping[str, Any]) -> None:
        self._rates, self._each = rates, capacity * BUSY_SHARE_BESIDE_BOUNDED_QUEUE
        self._autoscaler = Autoscaler(spec)

    def poll(self, seen: Seen) -> None:
        """Do nothing: the rule knows the load."""

    def decide(self, now: float, timestamp: float, seen: Seen) -> int:  # noqa: ARG002 - as the interface has it
        load = float(self._rates[max(0, int(now))])
        return self._autoscaler.decide(now, seen.current, [math.ceil(load / self._each + SPARE_PODS_BESIDE_BOUNDED_QUEUE)])


def queue_us(target: Target, _now: float) -> float | None:
    """Return the mean wait of a request in the last two scrapes, by Little's law: waiting requests over answered ones."""
    recent = list(target.samples)[-2:]
    if len(recent) < 2:
        return None
    before, after = recent
    waited = (before.pending + after.pending) / 2 * (after.at - before.at)
    return 1e6 * waited / (1 + after.successes - before.successes)


def cpu_share(target: Target, _now: float) -> float | None:
    """Return the CPU share that a pod used between the last two scrapes."""
    recent = list(target.samples)[-2:]
    if len(recent) < 2:
        return None
    before, after = recent
    return CPU_SECONDS * (after.successes - before.successes) / (after.at - before.at) / CPUS


def ours(model: Model, start_seconds: int, most: int = MOST, *, bounded: bool = False, **keys: Any) -> Plan:
    """Return prod with one model, its derived targets, this measured start, and these keys of `triton-eks:autoscaling`.

    `bounded`: its queue drops requests that can no longer be answered in time.
    """
    file = stack_file("prod")
    config: dict[str, Any] = dict(read_config((REPOSITORY / file).read_bytes(), file))
    serving = {"device": "cpu", "sloP95Ms": model.slo_ms, "expectedRate": model.peak / 2, "peakRate": model.peak}
    if bounded:
        serving["queueTimeoutMs"] = round(model.slo_ms - model.batch_ms[1])
    config["triton-eks:models"] = {"oldReleaseDays": 90, "serving": {NAME: {**serving, "maxBatchSize": model.batch}}}
    config["triton-eks:triton"]["rollout"] = "rolling"  # one release on the nodes
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
    """Return the plan with other fields of `behavior`; empty ones keep the API's defaults."""
    scaled, signals = cast(partial[Keda], plan.controller).args
    advanced = scaled["advanced"]["horizontalPodAutoscalerConfig"]
    pace = {**advanced["behavior"], **behavior} if behavior else None
    changed = {**scaled, "advanced": {"horizontalPodAutoscalerConfig": {**advanced, "behavior": pace}}}
    return dataclasses.replace(plan, controller=partial(Keda, changed, signals))


def _with_share(plan: Plan, busy_share: float, spare_pods: float) -> Plan:
    """Return the plan of a model with one instance, with this busy share and these spare pods (fractions allowed)."""
    scaled, signals = cast(partial[Keda], plan.controller).args
    changed = [
        dataclasses.replace(signal, target=busy_share, spare=spare_pods) if signal.recording is NEEDED else signal
        for signal in signals
    ]
    triggers = [signal.keda_trigger("http://prometheus") for signal in changed]
    return dataclasses.replace(plan, controller=partial(Keda, {**scaled, "triggers": triggers}, changed))


def _limits(settle: int, pods: int, percent: int, period: int) -> dict[str, Any]:
    policies = [{"type": "Pods", "value": pods}, {"type": "Percent", "value": percent}]
    return {
        "stabilizationWindowSeconds": settle,
        "selectPolicy": "Max",
        "policies": [{**policy, "periodSeconds": period} for policy in policies if policy["value"]],
    }


def of_all(model: Model, start_seconds: int, trace: Trace) -> Mapping[str, Plan]:
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
    """Return our rule with a bounded queue, and a rule that sees the load at once."""
    plain = ours(model, start_seconds, bounded=True)
    scaled, _ = cast(partial[Keda], plain.controller).args
    knows = partial(AtOnce, trace.rates[NAME], plain.models[0].service.capacity, autoscaler_of(scaled))
    return {OURS: plain, AT_ONCE: dataclasses.replace(plain, controller=knows)}


def paces(model: Model, start_seconds: int) -> Mapping[str, Plan]:
    """Return our rule without a spare pod, with other limits of added and removed pods, within generous replica bounds."""
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
    """Return our rule with other busy shares of instances, and other numbers of spare pods."""

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
    """Return our rule with a bounded queue and other look-back times before a pod is removed."""

    def after(seconds: int) -> Plan:
        return ours(model, start_seconds, bounded=True, scaleDownAfterSeconds=seconds)

    return {
        "one start, 300 s at least": after(max(start_seconds, 300)),
        OURS: ours(model, start_seconds, bounded=True),
        "120 s": after(120),
    }


def other_settings(model: Model, start_seconds: int) -> Mapping[str, Plan]:
    """Return our rule with a bounded queue and other settings, which meet a cell that ours misses.

    LESS_TO_SPARE is not possible in a stack, where spare pods are whole pods.
    """
    plain = ours(model, start_seconds, bounded=True)
    busy = {NAME: {"busy": BUSY_SHARE_BESIDE_BOUNDED_QUEUE}}
    rate = {NAME: {"rate": RATE_SHARE * plain.models[0].service.capacity}}
    return {
        OURS: plain,
        NONE_TO_SPARE: ours(model, start_seconds, bounded=True, sparePods=0, targets=busy),
        LESS_TO_SPARE: _with_share(plain, 0.94, 0.4),
        FLOOR: ours(model, start_seconds, bounded=True, minReplicas=OF_PEAK),
        FLOOR_ON_RATE: ours(model, start_seconds, bounded=True, minReplicas=OF_PEAK, targets=rate),
    }


def held_out(everybody: Mapping[str, float]) -> Mapping[str, Trace]:
    """Return traces that were not used to choose settings: two peaks a day, random levels, a fast ramp, and spikes."""
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
