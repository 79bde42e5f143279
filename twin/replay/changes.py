"""The changes of a stack's autoscaling that `twin advise` tries one by one, and their lines in the stack file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from spec import stack_file
from spec.prometheus.timing import start_seconds
from spec.scaling.behavior import behavior
from spec.scaling.signal import BUSY_SHARE_BESIDE_SPARE, spare_pods
from spec.settings import Settings
from spec.settings.autoscaling import Autoscaling
from spec.settings.digest import compute_capabilities, digest_of
from spec.settings.pipelines import StepServing
from spec.settings.relations.triton import instances_per_pod
from twin.replay.plan import Plan
from twin.replay.service import ASSUMED, Service

_BUSY_SHARES = (0.5, 0.85)
"""Shares of a model's instances that should be busy. `spec.scaling.signal` derives 0.7, or 0.8 or 0.9 with a spare pod.

More than 0.87 might never request a pod. An instance that is always busy was measured at 0.96
(docs/facts/triton-metrics.md#measured-pod), and 10 % above the target are tolerated.
"""
_LONGEST_LOOK_BACK_SECONDS = 3600


@dataclass(frozen=True)
class Change:
    """Keys of a section of a stack file with their values. In `models.serving` each model keeps its other keys."""

    section: Literal["autoscaling", "models"]
    keys: Mapping[str, Any]

    def made(self, config: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
        """Return the stack's configuration with the change, with a release digest as if it was released again for it."""
        name = f"triton-eks:{self.section}"
        before: Mapping[str, Any] = stack_file.decoded(config[name])
        if self.section == "autoscaling":
            return {**config, name: {**before, **self.keys}}
        return {**config, name: {**before, **_served(before, self.keys["serving"], settings)}}

    @property
    def line(self) -> str:
        """Return the change as a line of YAML."""
        ((key, value),) = self.keys.items()
        return f"{key}: {_flow(value)}"

    @property
    def pasted(self) -> str:
        """Return the line for a stack file, with a comment on its conditions."""
        if "startSeconds" in self.keys:  # shows the value of faster starts; this is not a setting to choose
            return f"{self.line}  # only where starts are as fast"
        if self.section == "models":
            return f"{self.line}  # of triton-eks:models, beside each model's other keys, and a release"
        return self.line


def changes(settings: Settings, section: Mapping[str, Any], found: Sequence[Plan]) -> Iterator[Change]:
    """Yield the changes to try: bounds, pods, times and targets of `autoscaling`, and bounded queues.

    `section`: the `autoscaling` section of the stack file. `found`: the plans of the stack's fleets. For models whose
    service times are given or measured, also try the pods of their peak as a minimum, and a request-rate target.
    """
    bounds = settings.autoscaling
    assert bounds is not None, "the caller has looked"
    answered = answers(found)
    for keys in (
        *_bounds_tried(bounds, pods_of_peak(settings, answered)),
        *_pods(settings, bounds),
        *_times(settings),
        *_targets(settings, section, answered),
    ):
        yield Change("autoscaling", keys)
    timeouts = _queue_timeouts(settings, found)
    if timeouts:
        yield Change("models", {"serving": {model: {"queueTimeoutMs": most} for model, most in timeouts.items()}})


def answers(found: Sequence[Plan]) -> dict[str, float]:
    """Return the requests/s of a pod for each measured model, in its slowest fleet, because all fleets share one target."""
    measured = {
        name: [service.capacity for service in services if service.source != ASSUMED]
        for name, services in _services(found).items()
    }
    return {name: min(capacities) for name, capacities in measured.items() if capacities}


def pods_of_peak(settings: Settings, answered: Mapping[str, float]) -> int:
    """Return the pods that the most demanding of these models needs at its peak; 0 without models."""
    peaks = (math.ceil(settings.models.serving[model].peak_rate / rate) for model, rate in answered.items())
    return max(peaks, default=0)


def _served(models: Mapping[str, Any], wanted: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Return `serving` with these keys of its models, and `release` with the matching digest."""
    serving: dict[str, Any] = dict(models["serving"])
    wants = dict(settings.models.serving)
    for model, keys in wanted.items():
        serving[model] = {**serving[model], **keys}
        wants[model] = wants[model].model_copy(update={"queue_timeout_ms": keys["queueTimeoutMs"]})
    release = models.get("release")
    if release is None or "serving" not in release:
        return {"serving": serving}
    digest = digest_of(settings.models.model_copy(update={"serving": wants}), compute_capabilities(settings))
    return {"serving": serving, "release": {**release, "serving": digest}}


def _services(found: Sequence[Plan]) -> dict[str, list[Service]]:
    services: dict[str, list[Service]] = {}
    for model in (model for plan in found for model in plan.models):
        services.setdefault(model.name, []).append(model.service)
    return services


def _bounds_tried(bounds: Autoscaling, of_peak: int) -> Iterator[Mapping[str, Any]]:
    yield {"minReplicas": bounds.min_replicas + 1}
    if bounds.min_replicas > 1:
        yield {"minReplicas": bounds.min_replicas - 1}
    if bounds.min_replicas + 1 < of_peak <= bounds.max_replicas:
        yield {"minReplicas": of_peak}
    yield {"maxReplicas": math.ceil(1.5 * bounds.max_replicas)}


def _pods(settings: Settings, bounds: Autoscaling) -> Iterator[Mapping[str, Any]]:
    if settings.node_autoscaler != "none":
        yield {"warmPods": bounds.warm_pods + 1}
        if bounds.warm_pods:
            yield {"warmPods": bounds.warm_pods - 1}
    if settings.pod_autoscaler == "keda":
        spare = max(spare_pods(settings, wants) for wants in settings.models.serving.values())
        yield {"sparePods": math.floor(spare) + 1}
        if spare:
            yield {"sparePods": math.ceil(spare) - 1}


def _times(settings: Settings) -> Iterator[Mapping[str, Any]]:
    look_back = behavior(settings)["scaleDown"]["stabilizationWindowSeconds"]
    yield {"scaleDownAfterSeconds": look_back // 2}
    if look_back < _LONGEST_LOOK_BACK_SECONDS:
        yield {"scaleDownAfterSeconds": min(2 * look_back, _LONGEST_LOOK_BACK_SECONDS)}
    yield {"startSeconds": math.ceil(start_seconds(settings) / 2)}


def _targets(settings: Settings, section: Mapping[str, Any], answered: Mapping[str, float]) -> Iterator[Mapping[str, Any]]:
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


def _queue_timeouts(settings: Settings, found: Sequence[Plan]) -> dict[str, int]:
    """Return, for each model whose queue is unbounded, the ms that its SLO leaves after a full batch."""
    timeouts = {}
    for name, services in sorted(_services(found).items()):
        wants = settings.models.serving[name]
        if isinstance(wants, StepServing):
            continue  # the stack file has no entry for it that could take the key
        left = math.floor(wants.slo_p95_ms - 1000 * max(service.full for service in services))
        if left > 0 and not wants.queue_is_bounded and wants.sequence is None:
            timeouts[name] = left
    return timeouts


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_flow(one)}" for key, one in value.items()) + "}"
    return f"{value:g}" if isinstance(value, float) else str(value)
