"""The numbers that Triton is scaled on: the one place where a query, its metric type and its target are made, together.

Two numbers of each model, of which an autoscaler takes the one that wants more pods. Requests that wait say how far
behind the fleet is and nothing before it is; busy instances say how close it is and nothing beyond, because they saturate
(docs/facts/triton-metrics.md#two-pods). Each is recorded per pod and model (`spec.prometheus.recording`).
Models that share a GPU add up on it: one more number of such a fleet is the load of its GPUs (`spec.prometheus.gpu_load`).
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
"""Of a model's instances that may execute at a time, on average. Near 1 the queue grows, and it has said nothing before.

See docs/facts/triton-metrics.md#measured-pod.
"""
BUSY_SHARE_BESIDE_SPARE = 0.8
"""The same where there is a spare pod, which is what the 70 % would leave free (benchmarks/autoscaling.md#spare-pod)."""
SPARE_PODS = 1
BUSY_SHARE_BESIDE_BOUNDED_QUEUE = 0.9
"""The same of a model whose requests are rejected when they can no longer be answered in time (`queueTimeoutMs`).

Its pods may be fuller: an overload leaves no backlog, and what it rejects is counted among the instances that are needed.
Not more: a tenth more than the target is tolerated, and the instances of a full fleet would never ask for a pod.
"""
SPARE_PODS_BESIDE_BOUNDED_QUEUE = 0.5
"""Half a pod: of what is asked for, the number is rounded up."""


GPU_LOAD_SHARE = 0.74
"""Load of a GPU that several instances share. The aim is at most 85 %: an autoscaler tolerates a tenth more than the target,
and the recorded load is 4 % below a simulated one (`spec.prometheus.gpu_load`), so 0.85 / 1.1 / 1.04.

Without a spare pod: the number of each model asks for its own (benchmarks/autoscaling.md#models-that-share-a-gpu).
"""


@dataclass(frozen=True)
class Recording:
    """A recording rule per namespace, pod and model, or per pod, and its name as a metric of the custom metrics API."""

    series: str
    metric: str


STREAMS_SHARE = 0.7
"""Of a language model's concurrent streams that may be in flight, on average: a pod takes minutes to start."""
WAITING_SHARE = 0.1
"""Of them, how many may wait for their first token. An assumption, not measured: prompts that are computed wait too."""


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
    """Return the rules whose series a stack's pods may be scaled on."""
    stacks = [fleet.stack for fleet in settings.each_fleet]
    targets = [target for stack in stacks if stack.autoscaling is not None for target in stack.autoscaling.targets.values()]
    rate = (ASKED,) if any(target.rate is not None for target in targets) else ()
    counted = (AT_GATEWAY,) if language_models.counted_at_gateway(settings) else ()
    streams = (WAITING, IN_FLIGHT, *counted) if language_models.language_models(settings) else ()
    shared = (GPU_LOAD,) if any(gpu_load.shares_gpus(stack) for stack in stacks) else ()
    return (*RECORDINGS, *rate, *streams, *shared)


@dataclass(frozen=True)
class Signal:
    """A number that pods are scaled on: what they have together, of one model or of all, and what one of them should have.

    The query is the sum over the deployment and the metric type says so: pods wanted are `ceil(sum / target)`, however many
    there are. With the type Value, the same sum would be taken for what each pod has, and the pods that are still loading
    would be multiplied again and again (docs/facts/scaling.md#average-value). Hence neither can be chosen.
    """

    METRIC_TYPE: ClassVar[Literal["AverageValue"]] = "AverageValue"

    recording: Recording
    model: str | None
    """None: the recorded number is of all models of a pod."""
    target: float
    """Per pod."""
    deployment: str | None = None
    """The Deployment whose pods count; None where there is no other."""
    spare: float = 0
    """Pods beyond those that the number asks for; by KEDA alone, as the other autoscaler knows only what its pods have."""
    window_seconds: int = SCALING_WINDOW_SECONDS
    """Window of the mean of what waits; rates are recorded over theirs."""

    def __post_init__(self) -> None:
        if not self.target > 0 or not math.isfinite(self.target):
            raise ValueError(f"{self.name}: a target of {self.target} per pod; it has to be more than 0")

    @property
    def name(self) -> str:
        """Return the name that people see in events: `pending-classify`."""
        kind = _KINDS[self.recording]
        return kind if self.model is None else f"{kind}-{self.model}"

    @property
    def added(self) -> float:
        """Return what is added to the sum, so that it asks for the spare pods too."""
        return round(self.spare * self.target, 3)

    @property
    def query(self) -> str:
        """Return PromQL of one element: the sum over all pods, and the spare; without pods nothing, which is not 0."""
        own = [pods_of([self.deployment])] if self.deployment is not None else []
        numbers = series(self.recording.series, *own, **self._labels)
        # A gauge: what one scrape finds by chance counts a part.
        total = f"sum({f'avg_over_time({numbers}[{self.window_seconds}s])' if self.recording is PENDING else numbers})"
        return f"{total} + {self.added:g}" if self.spare else total

    @property
    def _labels(self) -> dict[str, str]:
        return {} if self.model is None else {"model": self.model}

    def keda_trigger(self, prometheus_url: str, *, to_zero: bool = False) -> dict[str, Any]:
        """Return the trigger of a ScaledObject. Every value of its metadata is text: the CRD refuses numbers.

        Nothing is an error here, not 0: in an outage of Prometheus the fallback holds the pods that there are. With
        `to_zero` there may be no pod that has a number, and nothing is 0: as an error it would hold the last pod for ever.
        Nor is what is added for spare pods an activity.
        """
        return {
            "type": "prometheus",
            "name": self.name,
            "metricType": self.METRIC_TYPE,
            # One question every `pollingInterval` instead of one by KEDA and one by each look of the HPA.
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
        """Return the metric of a HorizontalPodAutoscaler, by prometheus-adapter: the same sum, divided by the API's reader.

        Of type Pods: one without a value counts 0 when there shall be more, and its target when there shall be fewer.
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
    """Return a number as Kubernetes writes quantities, in thousandths where it is no whole one."""
    return str(int(value)) if value == int(value) else f"{math.ceil(value * 1000)}m"


def signals(settings: Settings, deployment: str | None = None) -> list[Signal]:
    """Return the signals of each model that the stack wants something of, in the order of the models, then the GPUs' load.

    `deployment`: that of a fleet beside others, of which `settings` is the stack as it has it.

    An ensemble is never among them: its requests are those of its steps, and the server counts their time once more as its
    own (https://github.com/triton-inference-server/core/blob/73aad7c/src/ensemble_scheduler/ensemble_scheduler.cc#L134-L148).
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
    """Return what a language model is scaled on: requests that wait for a first token, and all that are in flight.

    `at_gateway`: also what the gateway has in flight, with the same target.
    """
    waiting = given.pending if given.pending is not None else max(1, round(WAITING_SHARE * wants.concurrent_streams, 3))
    in_flight = given.busy if given.busy is not None else round(STREAMS_SHARE * wants.concurrent_streams, 3)
    flying = (IN_FLIGHT, AT_GATEWAY) if at_gateway else (IN_FLIGHT,)
    return [Signal(WAITING, model, waiting, deployment), *(Signal(of, model, in_flight, deployment) for of in flying)]


def pending_target(batch: int, instances: int) -> int:
    """Return the requests that may wait in a pod: what it answers in the time that the SLO leaves for waiting, `mu * W`.

    With `mu = instances * batch / batch time`, and half of the SLO for the queue and half for the batch, as the alerts have
    it, both times are the same and cancel out: one batch for each instance. Measured on a pod of one instance with batches
    of 4 in 0.2 s: 20/s * 0.2 s = 4 (docs/facts/triton-metrics.md#measured-pod).
    """
    return instances * batch


def spare_pods(settings: Settings, wants: ModelServing) -> float:
    """Return the pods beyond those that a model's instances ask for."""
    bounds = settings.autoscaling
    if bounds is None or settings.pod_autoscaler != "keda":
        return 0
    if bounds.spare_pods is not None:
        return bounds.spare_pods
    return SPARE_PODS_BESIDE_BOUNDED_QUEUE if wants.queue_is_bounded else SPARE_PODS


def busy_target(instances: int, spare: float = 0, *, bounded: bool = False) -> float:
    """Return how many instances of a pod may be busy on average: not all, so that there is time to start another pod.

    `bounded`: the queue holds nothing that can no longer be answered in time (`ModelServing.queue_is_bounded`).
    """
    if not spare:
        return round(BUSY_SHARE * instances, 3)
    return round((BUSY_SHARE_BESIDE_BOUNDED_QUEUE if bounded else BUSY_SHARE_BESIDE_SPARE) * instances, 3)
