"""Read from a stack everything that decides how a fleet follows its load: models, pods, nodes and autoscaler."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from spec.capacity import pods_per_node
from spec.failure import NOT_TRIED, Failure
from spec.prometheus.gpu_load import gpu_models
from spec.prometheus.rule import SCALING_WINDOW_SECONDS, scaling_window_seconds
from spec.prometheus.timing import pod_start_seconds, start_seconds
from spec.scaling.manifests import autoscaler_spec, scaled_object_spec
from spec.scaling.signal import ASKED, NEEDED, PENDING, Signal, signals
from spec.settings import GpuPool, Settings
from spec.settings.fleets import Fleet
from stackctl.cost.node_counts import shares
from stackctl.cost.prices import EC2, PriceTable
from stackctl.cost.throughput import Measured
from stackctl.cost.usage import SPOT_SHARE
from twin.replay.capacity import Pool, Starts
from twin.replay.controllers import Controller, Fixed, Hpa, Keda
from twin.replay.prometheus import Target, gpu_load
from twin.replay.service import Service, service_of

_READ = {PENDING: Target.pending, NEEDED: Target.needed, ASKED: Target.asked}
_NOT_SIMULATED = {
    "slo_p99_ms": "sloP99Ms",
    "max_queue_delay_us": "maxQueueDelayUs",
    "priorities": "priorities",
    "sequence": "sequence",
    "decoupled": "decoupled",
    "response_cache": "responseCache",
    "rate_limiter": "rateLimiter",
}
"""Requirements of a model that would change the result and are not simulated: by field, the key in the stack file."""
_NO_PROMETHEUS = "http://prometheus"
"""The address in the triggers; no request is sent to it."""


class NotReplayable(Failure):
    """The replay cannot simulate this stack; the text says why."""

    exit_code = NOT_TRIED


@dataclass(frozen=True)
class Model:
    """`expected`: the rate by which requests that name no model are divided. `share`: the fleet's share of requests."""

    name: str
    service: Service
    slo_seconds: float
    timeout_seconds: float
    expected: float
    peak: float
    share: float
    window_seconds: int = SCALING_WINDOW_SECONDS
    """The window of the numbers that scale its pods."""


@dataclass(frozen=True)
class Number:
    """A number that a controller knows by name. For each pod, `read` computes it from the samples of one of its models."""

    name: str
    model: str
    read: Callable[[Target, float], float | None]

    def of(self, targets: Mapping[str, Target], now: float) -> float | None:
        """Return the number of a pod with these models."""
        return self.read(targets[self.model], now)


@dataclass(frozen=True)
class GpuLoad:
    """The load of each pod's GPUs. `instances`: by each model that shares them."""

    name: str
    instances: Mapping[str, int]
    gpus: int

    def of(self, targets: Mapping[str, Target], now: float) -> float | None:
        """Return the load of a pod with these models."""
        return gpu_load({model: targets[model].needed(now) for model in self.instances}, self.instances, self.gpus)


@dataclass(frozen=True)
class Plan:
    """One fleet of a stack. `fewest`: its initial number of pods."""

    fleet: str
    models: tuple[Model, ...]
    numbers: tuple[Number | GpuLoad, ...]
    controller: Callable[[], Controller]
    fewest: int
    pool: Pool
    starts: Starts
    notes: tuple[str, ...]


def plans(
    settings: Settings,
    prices: PriceTable,
    measured: Mapping[str, Measured],
    given: Mapping[str, tuple[float, float]],
) -> list[Plan]:
    """Return the plan of each fleet. `given`: by model, the milliseconds of a batch of one and of a full batch.

    Raises NotReplayable.
    """
    streams = sorted(model for model, wants in settings.models.serving.items() if wants.llm is not None)
    if streams:
        raise NotReplayable(f"{', '.join(streams)}: the batching of language models is not simulated, only Triton's own")
    without_pods = [fleet.release for fleet in settings.each_fleet if fleet.stack.fewest_pods == 0]
    if without_pods:
        raise NotReplayable(
            f"{', '.join(without_pods)}: with autoscaling.minReplicas 0 what finds no pod starts the first one, "
            "and what is replayed are requests to pods; replay it with 1"
        )
    unknown = sorted(given.keys() - settings.models.serving.keys())
    if unknown:
        known = ", ".join(sorted(settings.models.serving)) or "none"
        raise NotReplayable(f"--batch-ms {unknown[0]}: the stack wants nothing of that model; models.serving has {known}")
    for model, (one, full) in given.items():
        batch = settings.models.largest_batch(model)
        if full > one * batch:
            raise NotReplayable(
                f"--batch-ms {model}={one:g}:{full:g}: a batch of {batch} takes longer than its requests one by one, "
                f"{one * batch:g} ms; give a shorter batch, or maxBatchSize: 1"
            )
    if not settings.models.serving:
        raise NotReplayable("models.serving is empty, so that nothing says what a pod can carry and how fast it has to be")
    return [_plan(settings, fleet, prices, measured, given) for fleet in settings.each_fleet]


def _plan(
    settings: Settings,
    fleet: Fleet[Settings],
    prices: PriceTable,
    measured: Mapping[str, Measured],
    given: Mapping[str, tuple[float, float]],
) -> Plan:
    stack, parts = fleet.stack, shares(settings, fleet)
    models = tuple(
        Model(
            name,
            service_of(stack, name, wants, measured.get(name), given.get(name)),
            wants.slo_p95_ms / 1000,
            wants.queue_timeout_us / 1e6,
            wants.expected_rate,
            wants.peak_rate,
            parts.get(name, 1.0),
            scaling_window_seconds(wants),
        )
        for name, wants in sorted(stack.models.serving.items())
        if name not in stack.models.ensembles
    )
    found = tuple(signals(stack, fleet.deployment))
    fewest = stack.autoscaling.min_replicas if stack.autoscaling is not None else stack.triton.replicas or 1
    pool, starts, controller = _pool(stack, prices), _starts(stack), _controller(fleet, found)
    numbers = tuple(
        Number(signal.name, signal.model, _READ[signal.recording])
        if signal.model is not None
        else GpuLoad(signal.name, gpu_models(stack), stack.triton.gpus)
        for signal in found
    )
    return Plan(fleet.release, models, numbers, controller, fewest, pool, starts, _notes(stack, starts, models))


def _controller(fleet: Fleet[Settings], found: tuple[Signal, ...]) -> Callable[[], Controller]:
    if fleet.stack.pod_autoscaler == "keda":
        return partial(Keda, scaled_object_spec(fleet.stack, _NO_PROMETHEUS, fleet.deployment), found)
    if fleet.stack.pod_autoscaler == "hpa":
        return partial(Hpa, autoscaler_spec(fleet.stack, fleet.deployment), found)
    return Fixed


def _pool(stack: Settings, prices: PriceTable) -> Pool:
    group, fixed = stack.triton_nodes, stack.node_autoscaler == "none"
    usd = prices.usd(f"{EC2}.{group.instance_types[0]}")
    share = SPOT_SHARE if isinstance(group, GpuPool) and group.capacity == "spot" else 1
    karpenter = stack.node_autoscaler == "karpenter"
    return Pool(
        pods_per_node=pods_per_node(stack, group),
        most_nodes=group.desired if fixed and isinstance(group, GpuPool) else group.max,
        fewest_nodes=group.min if isinstance(group, GpuPool) and not karpenter else 0,
        fixed=fixed,
        warm_pods=stack.autoscaling.warm_pods if stack.autoscaling is not None else 0,
        gpus_per_node=group.types[0].gpus,
        usd_per_hour=None if usd.is_nan() else float(usd * share),
    )


def _starts(stack: Settings) -> Starts:
    pod = pod_start_seconds(stack)
    return Starts(start_seconds(stack) - pod, pod)


def _notes(stack: Settings, starts: Starts, models: tuple[Model, ...]) -> tuple[str, ...]:
    """Return the assumptions behind the figures, in words."""
    measured = stack.autoscaling is not None and stack.autoscaling.start_seconds is not None
    said = "autoscaling.startSeconds" if measured else "assumed"
    found = [f"a pod starts in {starts.pod:g} s, on a new node in {starts.pod + starts.node:g} s ({said})"]
    for model in models:
        service = model.service
        found.append(
            f"{model.name}: a request alone {service.one * 1000:.3g} ms, a batch of {service.batch:.3g} "
            f"{service.full * 1000:.3g} ms, {service.capacity:.3g} requests/s a pod ({service.source})"
        )
        wants = stack.models.serving[model.name]
        left_out = [key for field, key in _NOT_SIMULATED.items() if getattr(wants, field)]
        if left_out:
            found.append(f"{model.name}: {', '.join(left_out)} not simulated, as if the stack did not have it")
    return tuple(found)
