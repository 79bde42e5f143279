"""The scaling signals of Triton. Query, metric type and target of each are defined together, only here.

Each model has two metrics, and an autoscaler uses the one that requests more pods. Waiting requests show how far an
overloaded fleet is behind, but give no early warning. Busy instances show how close it is to overload, but saturate there
(docs/facts/triton-metrics.md#two-pods). Each metric is recorded per pod and model (`spec.prometheus.recording`).

The load of models that share a GPU adds up. Such a fleet has one more metric, the load of its GPUs
(`spec.prometheus.gpu_load`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from spec.prometheus import gpu_load, language_models, recording
from spec.prometheus.rule import SCALING_WINDOW_SECONDS, pods_of, scaling_window_seconds, series
from spec.settings.autoscaling import Target
from spec.settings.language_model import LanguageModel
from spec.settings.model import Settings
from spec.settings.relations.triton import instances_per_pod
from spec.settings.serving import ModelServing

BUSY_SHARE = 0.7
"""The target share of a model's instances that execute, on average. Near 1 the queue grows without an earlier warning.

See docs/facts/triton-metrics.md#measured-pod.
"""
BUSY_SHARE_BESIDE_SPARE = 0.8
"""The same target with a spare pod, which replaces the reserve of the 70 % (benchmarks/autoscaling.md#spare-pod)."""
SPARE_PODS = 1
BUSY_SHARE_BESIDE_BOUNDED_QUEUE = 0.9
"""The same target for a model with `queueTimeoutMs` that rejects requests it can no longer answer in time.

Its pods may be fuller, because an overload leaves no backlog, and rejected requests count as needed instances. It cannot be
higher: autoscalers tolerate a tenth above the target, and the instances of a full fleet would never request a pod.
"""
SPARE_PODS_BESIDE_BOUNDED_QUEUE = 0.5
"""Half a pod, because the number of requested pods is rounded up."""


GPU_LOAD_SHARE = 0.74
"""The target load of a GPU that several instances share. The aim is at most 85 %.

An autoscaler tolerates a tenth above the target, and the recorded load is 4 % below a simulated one
(`spec.prometheus.gpu_load`), so it is 0.85 / 1.1 / 1.04. It includes no spare pod, because each model's own metric requests
one (benchmarks/autoscaling.md#models-that-share-a-gpu).
"""


@dataclass(frozen=True)
class Recording:
    """A recording rule per pod, or per namespace, pod and model, and its name in the custom metrics API."""

    series: str
    metric: str


STREAMS_SHARE = 0.7
"""The target share of a language model's concurrent streams in flight, on average. A pod takes minutes to start."""
WAITING_SHARE = 0.1
"""The share of these streams that may wait for their first token. Assumed, not measured; running prompts count as
waiting."""


PENDING = Recording(recording.PENDING, "triton_pending_requests")
NEEDED = Recording(recording.NEEDED, "triton_needed_instances")
ASKED = Recording(recording.ASKED, "triton_requests")
RECORDINGS = (PENDING, NEEDED)
GPU_LOAD = Recording(gpu_load.GPU_LOAD, "triton_gpu_load")
WAITING = Recording(language_models.WAITING, "triton_requests_waiting")
IN_FLIGHT = Recording(language_models.IN_FLIGHT, "triton_requests_in_flight")
AT_GATEWAY = Recording(language_models.AT_GATEWAY, "triton_requests_at_gateway")
_KINDS = {
    PENDING: "pending",
    NEEDED: "busy",
    ASKED: "rate",
    WAITING: "waiting",
    IN_FLIGHT: "in-flight",
    AT_GATEWAY: "at-gateway",
    GPU_LOAD: "gpu-load",
}


def recordings(settings: Settings) -> tuple[Recording, ...]:
    """Return the recording rules that a stack's pods may be scaled on."""
    stacks = [fleet.stack for fleet in settings.each_fleet]
    targets = [target for stack in stacks if stack.autoscaling is not None for target in stack.autoscaling.targets.values()]
    rate = (ASKED,) if any(target.rate is not None for target in targets) else ()
    counted = (AT_GATEWAY,) if language_models.counted_at_gateway(settings) else ()
    streams = (WAITING, IN_FLIGHT, *counted) if language_models.language_models(settings) else ()
    shared = (GPU_LOAD,) if any(gpu_load.shares_gpus(stack) for stack in stacks) else ()
    return (*RECORDINGS, *rate, *streams, *shared)


@dataclass(frozen=True)
class Signal:
    """A scaling metric: the sum over all pods, for one model or all, and the target for one pod.

    The query is the sum over the Deployment, and the metric type says so: the number of pods is `ceil(sum / target)`,
    however many exist. The type Value would treat the sum as the value of each pod, and multiply pods that are still loading
    again and again (docs/facts/scaling.md#average-value). Therefore both are fixed.
    """

    METRIC_TYPE: ClassVar[Literal["AverageValue"]] = "AverageValue"

    recording: Recording
    model: str | None
    """None if the metric covers all models of a pod."""
    target: float
    """Per pod."""
    deployment: str | None = None
    """The Deployment whose pods count; None if Triton has only one."""
    spare: float = 0
    """Additional pods beyond the metric's demand. Only with KEDA: the other autoscaler uses only its pods' own values."""
    window_seconds: int = SCALING_WINDOW_SECONDS
    """The window for the mean of waiting requests; rates are recorded over their own windows."""

    def __post_init__(self) -> None:
        if not self.target > 0 or not math.isfinite(self.target):
            raise ValueError(f"{self.name}: a target of {self.target} per pod; it has to be more than 0")

    @property
    def name(self) -> str:
        """Return the name shown in events: `pending-classify`."""
        kind = _KINDS[self.recording]
        return kind if self.model is None else f"{kind}-{self.model}"

    @property
    def added(self) -> float:
        """Return the amount added to the sum to request the spare pods too."""
        return round(self.spare * self.target, 3)

    @property
    def query(self) -> str:
        """Return a PromQL query with one result: the sum over all pods plus the spare. Without pods it has no result, not
        0."""
        own = [pods_of([self.deployment])] if self.deployment is not None else []
        numbers = series(self.recording.series, *own, **self._labels)
        # A gauge: averaging reduces the weight of a single scrape.
        total = f"sum({f'avg_over_time({numbers}[{self.window_seconds}s])' if self.recording is PENDING else numbers})"
        return f"{total} + {self.added:g}" if self.spare else total

    @property
    def _labels(self) -> dict[str, str]:
        return {} if self.model is None else {"model": self.model}

    def keda_trigger(self, prometheus_url: str, *, to_zero: bool = False) -> dict[str, Any]:
        """Return the trigger of a ScaledObject. All of its metadata are strings, because the CRD refuses numbers.

        A missing value is an error here, not 0, so in an outage of Prometheus the fallback keeps the existing pods. With
        `to_zero` there may be no pod with a value, so a missing value is 0; as an error it would keep the last pod forever.
        The amount added for spare pods does not count as activity either.
        """
        return {
            "type": "prometheus",
            "name": self.name,
            "metricType": self.METRIC_TYPE,
            # One query every `pollingInterval`, instead of one by KEDA and one by each HPA reading.
            "useCachedMetrics": True,
            "metadata": {
                "serverAddress": prometheus_url,
                "query": self.query,
                "threshold": f"{self.target:g}",
                **({"activationThreshold": f"{self.added:g}"} if self.spare and to_zero else {}),
                "ignoreNullValues": "true" if to_zero else "false",
            },
        }

    def pods_metric(self) -> dict[str, Any]:
        """Return the metric of a HorizontalPodAutoscaler from prometheus-adapter: the same sum, divided by the API's reader.

        It has the type Pods: a pod without a value counts as 0 when scaling up, and as its target when scaling down.
        """
        return {
            "type": "Pods",
            "pods": {
                "metric": {
                    "name": self.recording.metric,
                    **({"selector": {"matchLabels": self._labels}} if self._labels else {}),
                },
                "target": {"type": self.METRIC_TYPE, "averageValue": quantity(self.target)},
            },
        }


def quantity(value: float) -> str:
    """Return a number as a Kubernetes quantity, in thousandths if it is not an integer."""
    return str(int(value)) if value == int(value) else f"{math.ceil(value * 1000)}m"


def signals(settings: Settings, deployment: str | None = None) -> list[Signal]:
    """Return the signals of each model in models.serving, in the models' order, then the GPU load.

    `deployment` is the fleet's Deployment if there are several fleets; `settings` is then the fleet's view of the stack.

    Ensembles are excluded: their requests are requests of their steps, and the server counts their time again as the
    ensemble's
    (https://github.com/triton-inference-server/core/blob/73aad7c/src/ensemble_scheduler/ensemble_scheduler.cc#L134-L148).
    """
    bounds = settings.autoscaling
    found = []
    for model, wants in sorted(settings.models.serving.items()):
        if model in settings.models.ensembles:
            continue
        given = bounds.targets.get(model, Target()) if bounds is not None else Target()
        if wants.llm is not None:
            counted = language_models.counted_at_gateway(settings)
            found += _of_language_model(model, wants.llm, given, deployment, at_gateway=counted)
            continue
        instances, spare = instances_per_pod(settings, model, wants), spare_pods(settings, wants)
        pending = given.pending
        if pending is None:
            pending = pending_target(settings.models.largest_batch(model), instances)
        found.append(Signal(PENDING, model, pending, deployment, window_seconds=scaling_window_seconds(wants)))
        if given.busy is not None or given.rate is None:
            busy = given.busy if given.busy is not None else busy_target(instances, spare, bounded=wants.queue_is_bounded)
            found.append(Signal(NEEDED, model, busy, deployment, spare))
        if given.rate is not None:
            found.append(Signal(ASKED, model, given.rate, deployment, spare))
    if gpu_load.shares_gpus(settings):
        found.append(Signal(GPU_LOAD, None, round(GPU_LOAD_SHARE * settings.triton.gpus, 3), deployment))
    return found


def _of_language_model(
    model: str, wants: LanguageModel, given: Target, deployment: str | None, *, at_gateway: bool
) -> list[Signal]:
    """Return the signals of a language model: requests that wait for a first token, and all requests in flight.

    With `at_gateway`, add the requests in flight at the gateway, with the same target.
    """
    waiting = given.pending if given.pending is not None else max(1, round(WAITING_SHARE * wants.concurrent_streams, 3))
    in_flight = given.busy if given.busy is not None else round(STREAMS_SHARE * wants.concurrent_streams, 3)
    flying = (IN_FLIGHT, AT_GATEWAY) if at_gateway else (IN_FLIGHT,)
    return [Signal(WAITING, model, waiting, deployment), *(Signal(of, model, in_flight, deployment) for of in flying)]


def pending_target(batch: int, instances: int) -> int:
    """Return the target of waiting requests per pod: the number that a pod answers in the SLO's waiting time, `mu * W`.

    `mu = instances * batch / batch time`. Half of the SLO is for the queue and half for the batch, as in the alerts. So both
    times are equal and cancel out, which leaves one batch per instance. Measured on a pod of one instance with batches of 4
    in 0.2 s: 20/s * 0.2 s = 4 (docs/facts/triton-metrics.md#measured-pod).
    """
    return instances * batch


def spare_pods(settings: Settings, wants: ModelServing) -> float:
    """Return the number of spare pods for a model, beyond the pods that its busy instances request."""
    bounds = settings.autoscaling
    if bounds is None or settings.pod_autoscaler != "keda":
        return 0
    if bounds.spare_pods is not None:
        return bounds.spare_pods
    return SPARE_PODS_BESIDE_BOUNDED_QUEUE if wants.queue_is_bounded else SPARE_PODS


def busy_target(instances: int, spare: float = 0, *, bounded: bool = False) -> float:
    """Return how many instances of a pod may be busy on average. It leaves a reserve for the time of starting another pod.

    `bounded`: the queue holds no request that can no longer be answered in time (`ModelServing.queue_is_bounded`).
    """
    if not spare:
        return round(BUSY_SHARE * instances, 3)
    return round((BUSY_SHARE_BESIDE_BOUNDED_QUEUE if bounded else BUSY_SHARE_BESIDE_SPARE) * instances, 3)
