"""Look at the autoscaler of a workload: what it sees, wants and has."""

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
# What a HorizontalPodAutoscaler does that says nothing: the documentation's "default behavior".
_DEFAULT_LOOK_BACK_SECONDS = 300
_DEFAULT_COOL_DOWN_SECONDS = 300
"""KEDA's `cooldownPeriod`, from the last message to no pod at all."""
_SIGNAL_SECONDS = 90
"""How long a load is seen after it has ended: a rate over a minute, and the scrape and the look after it."""


@dataclass(frozen=True)
class Workload:
    """A Deployment, and the ScaledObject or HorizontalPodAutoscaler of the same name that scales it, if there is one."""

    namespace: str
    name: str


WORKERS = Workload(WORKER.namespace, WORKER_DEPLOYMENT)


@dataclass(frozen=True)
class Signal:
    """The number that asks for the most pods: what each pod has of it now, and what it should have at most."""

    name: str
    value: float
    target: float

    @property
    def share(self) -> float:
        """Over 1: more pods are wanted."""
        return self.value / self.target


@dataclass(frozen=True)
class Scale:
    """`wanted` pods, of which `ready` answer and `starting` do not yet; `ending` ones are no longer wanted.

    `fewest` is what there is without a load. `signal` None: the autoscaler has no number, or there is none.
    `return_seconds`: the longest that it takes from the end of a load to the fewest pods; None without an autoscaler.
    `nodes`: those of the whole cluster that Karpenter has started; None where it does not run.
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
        """There are the fewest pods, and nothing is changing."""
        return self.wanted == self.ready == self.fewest and not self.starting and not self.ending


async def look(api: KubeApi, workloads: Sequence[Workload]) -> Scale | None:
    """Return the scale of workloads now, together; None while the API does not answer, or lacks the Deployment of one."""
    try:
        scales, found = await asyncio.gather(asyncio.gather(*(_look(api, workload) for workload in workloads)), _nodes(api))
    except KubeError:
        return None
    return replace(together(scales), nodes=found)


def together(scales: Sequence[Scale]) -> Scale:
    """Return the pods of all workloads, with the signal that asks for most and the longest return."""
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
    """Return what these objects say: a Deployment, its pods, its ScaledObject, and its HorizontalPodAutoscaler."""
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
    # The controller keeps a place for a metric that it could not read: one without a type.
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
    """With its selector, as Prometheus would write both: metrics of one name may be of several models."""
    described: dict[str, Any] = metric[metric["type"][0].lower() + metric["type"][1:]]
    metric_of: dict[str, Any] = described.get("metric") or {}
    name = str(metric_of.get("name", metric["type"]))
    labels = (metric_of.get("selector") or {}).get("matchLabels") or {}
    # KEDA's selector names the ScaledObject, which the name says already.
    if not labels or _KEDA_METRIC.fullmatch(name):
        return name
    return f"{name}{{{','.join(f'{label}={value}' for label, value in sorted(labels.items()))}}}"


def _average(metric: dict[str, Any] | None, of: str) -> float | None:
    if metric is None:
        return None
    described = metric[metric["type"][0].lower() + metric["type"][1:]]
    written = (described.get(of) or {}).get("averageValue")
    value = float(quantity.parse(written)) if written is not None else None
    # Of no pods at all the controller reports a number far below zero.
    return value if value is None or value >= 0 else None


def _trigger_name(metric: str, triggers: Sequence[dict[str, Any]]) -> str:
    """Return what the stack calls it (`busy-classify`), where KEDA numbers it."""
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
