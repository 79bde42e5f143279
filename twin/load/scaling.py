"""Read the state of a workload's autoscaler: its signal, its desired pods and the actual ones."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from spec.names import WORKER, WORKER_DEPLOYMENT
from twin.cluster import quantity
from twin.cluster.kube_api import KubeApi, Object
from twin.cluster.kube_errors import KubeError
from twin.load.counts import Counts, count

_NODE_CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
_KEDA_METRIC = re.compile(r"s(\d+)-.+")
"""KEDA's name for the metric of a ScaledObject's trigger: `s0-prometheus`, with the trigger's place in the list."""
# The default of a HorizontalPodAutoscaler without a setting: the documentation's "default behavior".
_DEFAULT_LOOK_BACK_SECONDS = 300
_DEFAULT_COOL_DOWN_SECONDS = 300
"""KEDA's `cooldownPeriod`, from the last message to 0 pods."""
_SIGNAL_SECONDS = 90
"""How long a load is visible after its end: a rate over a minute, then the scrape and the sync."""


@dataclass(frozen=True)
class Workload:
    """A Deployment, and the ScaledObject or HorizontalPodAutoscaler of the same name that scales it, if any."""

    namespace: str
    name: str


WORKERS = Workload(WORKER.namespace, WORKER_DEPLOYMENT)


@dataclass(frozen=True)
class Signal:
    """The number that requests the most pods: its current value for each pod, and its target."""

    name: str
    value: float
    target: float

    @property
    def share(self) -> float:
        """Return value by target; over 1, more pods are wanted."""
        return self.value / self.target


@dataclass(frozen=True)
class Scale:
    """`wanted` pods, of which `ready` answer and `starting` do not yet; `ending` ones are no longer wanted.

    `fewest`: the pods without a load. `signal` is None without an autoscaler, or if it has no number. `return_seconds`: the
    maximum time from the end of a load to the fewest pods; None without an autoscaler. `nodes`: the nodes in the whole
    cluster that Karpenter has started; None if it does not run.
    """

    wanted: int
    ready: int
    starting: int
    ending: int
    fewest: int
    signal: Signal | None = None
    return_seconds: float | None = None
    nodes: Counts | None = None

    @property
    def at_rest(self) -> bool:
        """Return whether there are the fewest pods, and no changes."""
        return self.wanted == self.ready == self.fewest and not self.starting and not self.ending


async def look(api: KubeApi, workloads: Sequence[Workload]) -> Scale | None:
    """Return the combined scale of workloads; None while the API does not answer, or lacks a Deployment."""
    try:
        scales, found = await asyncio.gather(asyncio.gather(*(_look(api, workload) for workload in workloads)), _nodes(api))
    except KubeError:
        return None
    return replace(together(scales), nodes=found)


def together(scales: Sequence[Scale]) -> Scale:
    """Return the pods of all workloads, with the strongest signal and the longest return."""
    signals = [scale.signal for scale in scales if scale.signal is not None]
    return Scale(
        wanted=sum(scale.wanted for scale in scales),
        ready=sum(scale.ready for scale in scales),
        starting=sum(scale.starting for scale in scales),
        ending=sum(scale.ending for scale in scales),
        fewest=sum(scale.fewest for scale in scales),
        signal=max(signals, key=lambda signal: signal.share, default=None),
        return_seconds=max((scale.return_seconds for scale in scales if scale.return_seconds is not None), default=None),
    )


async def _nodes(api: KubeApi) -> Counts | None:
    """Return the nodes of Karpenter; None in a cluster without it."""
    listed = await api.find(_NODE_CLAIMS)
    return None if listed is None else count(listed["items"])


async def _look(api: KubeApi, workload: Workload) -> Scale:
    inside = f"namespaces/{workload.namespace}"
    deployment, scaled = await asyncio.gather(
        api.get(f"/apis/apps/v1/{inside}/deployments/{workload.name}"),
        api.find(f"/apis/keda.sh/v1alpha1/{inside}/scaledobjects/{workload.name}"),
    )
    selector = ",".join(f"{key}={value}" for key, value in deployment["spec"]["selector"]["matchLabels"].items())
    name = ((scaled or {}).get("status") or {}).get("hpaName") or workload.name
    pods, autoscaler = await asyncio.gather(
        api.get(f"/api/v1/{inside}/pods", labelSelector=selector),
        api.find(f"/apis/autoscaling/v2/{inside}/horizontalpodautoscalers/{name}"),
    )
    return scale(deployment, pods["items"], scaled, autoscaler)


def scale(deployment: Object, pods: Sequence[Object], scaled: Object | None, autoscaler: Object | None) -> Scale:
    """Return the scale in these objects: a Deployment, its pods, its ScaledObject, and its HorizontalPodAutoscaler."""
    counted = count(pods)
    wanted = deployment["spec"].get("replicas", 1)
    return Scale(
        wanted=wanted,
        ready=counted.ready,
        starting=counted.starting,
        ending=counted.ending,
        fewest=_fewest(scaled, autoscaler, wanted),
        signal=_signal(scaled, autoscaler),
        return_seconds=_return_seconds(scaled, autoscaler),
    )


def _fewest(scaled: Object | None, autoscaler: Object | None, wanted: int) -> int:
    if scaled is not None:
        return int(scaled["spec"].get("minReplicaCount", 0))
    return int(autoscaler["spec"].get("minReplicas", 1)) if autoscaler is not None else wanted


def _signal(scaled: Object | None, autoscaler: Object | None) -> Signal | None:
    if autoscaler is None:
        return None
    triggers = scaled["spec"]["triggers"] if scaled is not None else []
    # The controller keeps an entry without a type for a metric that it could not read.
    read = [metric for metric in autoscaler.get("status", {}).get("currentMetrics") or [] if metric.get("type")]
    current = {_metric_name(metric): metric for metric in read}
    found = []
    for metric in autoscaler["spec"].get("metrics") or []:
        name = _metric_name(metric)
        value = _average(current.get(name), "current")
        target = _average(metric, "target")
        if value is not None and target:
            found.append(Signal(_trigger_name(name, triggers), value, target))
    return max(found, key=lambda signal: signal.share, default=None)


def _metric_name(metric: dict[str, Any]) -> str:
    """Return the name with its selector, in Prometheus's notation: metrics of one name may be for several models."""
    described: dict[str, Any] = metric[metric["type"][0].lower() + metric["type"][1:]]
    metric_of: dict[str, Any] = described.get("metric") or {}
    name = str(metric_of.get("name", metric["type"]))
    labels = (metric_of.get("selector") or {}).get("matchLabels") or {}
    # KEDA's selector names the ScaledObject, which the name already contains.
    if not labels or _KEDA_METRIC.fullmatch(name):
        return name
    return f"{name}{{{','.join(f'{label}={value}' for label, value in sorted(labels.items()))}}}"


def _average(metric: dict[str, Any] | None, of: str) -> float | None:
    if metric is None:
        return None
    described = metric[metric["type"][0].lower() + metric["type"][1:]]
    written = (described.get(of) or {}).get("averageValue")
    value = float(quantity.parse(written)) if written is not None else None
    # For 0 pods the controller reports a number far below zero.
    return value if value is None or value >= 0 else None


def _trigger_name(metric: str, triggers: Sequence[dict[str, Any]]) -> str:
    """Return the stack's name of a trigger (`busy-classify`) for KEDA's numbered name."""
    found = _KEDA_METRIC.fullmatch(metric)
    place = int(found[1]) if found else len(triggers)
    return str(triggers[place].get("name", metric)) if place < len(triggers) else metric


def _return_seconds(scaled: Object | None, autoscaler: Object | None) -> float | None:
    if scaled is None and autoscaler is None:
        return None
    down = (((autoscaler or {}).get("spec") or {}).get("behavior") or {}).get("scaleDown") or {}
    look_back = down.get("stabilizationWindowSeconds", _DEFAULT_LOOK_BACK_SECONDS)
    most = int(((autoscaler or {}).get("spec") or {}).get("maxReplicas", 1))
    fewest = _fewest(scaled, autoscaler, 1)
    steps = [
        policy["periodSeconds"] * -(-(most - fewest) // policy["value"])
        for policy in down.get("policies") or []
        if policy["type"] == "Pods"
    ]
    to_none = scaled["spec"].get("cooldownPeriod", _DEFAULT_COOL_DOWN_SECONDS) if scaled is not None and not fewest else 0
    return float(_SIGNAL_SECONDS + look_back + max(steps, default=0) + to_none)
