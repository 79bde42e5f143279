"""The pods of a stack, from its settings and its charts' values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from spec import helm_values, names
from spec.charts import NVIDIA_DEVICE_PLUGIN, PODS_OF_MPS, SHUTDOWN_MANAGER
from spec.pod_sets import NOTHING, REPLICAS_OF_MONITORING, PodSet, Request, Where
from spec.settings.chart_values import values_of
from spec.settings.fields import cpu_millis
from spec.settings.model import Document
from spec.settings.nodes import CPU_POOL_NAME
from spec.settings.scheduling.add_ons import ADDONS, addons
from spec.settings.scheduling.requests import requested

PARITY_EXPORTER = Request(50, 256)
COMPARER = Request(250, 512)
_ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Pods:
    """Equal pods: their number and the request of each, including its sidecars (`beside`). The rest is as in `PodSet`."""

    name: str
    request: Request
    count: int
    surges: bool = True
    apart: bool = False
    beside: Request = NOTHING


def daemons(document: Document, *, gpu: bool) -> list[Pods]:
    """Return the DaemonSet pods on each node with or without a GPU."""
    wanted: tuple[Where, ...] = ("every node", "GPU nodes") if gpu else ("every node",)
    return [pods for where, pods in _others(document) if where in wanted]


def on_system_nodes(document: Document) -> list[Pods]:
    """Return the pods that run only on system nodes, without workers and DaemonSets."""
    found = [pods for where, pods in _others(document) if where == "system nodes"]
    found += envoys(document)
    monitoring = document.monitoring
    if monitoring is not None and monitoring.parity_image is not None:
        found.append(Pods(names.PARITY_EXPORTER, PARITY_EXPORTER, 1))
    if document.triton.comparer_image is not None:  # reserve its room before a rollout starts it
        found.append(Pods(names.COMPARER, COMPARER, 1))
    return found


def envoys(document: Document) -> list[Pods]:
    """Return the Envoy pods that Envoy Gateway creates."""
    gateway, beside = document.gateway, SHUTDOWN_MANAGER
    if gateway is None:
        return []
    return [Pods("envoy", Request(cpu_millis(gateway.cpu), gateway.memory_mib) + beside, gateway.replicas, beside=beside)]


def workers(document: Document) -> list[Pods]:
    """Return the maximum number of workers."""
    worker = document.worker
    if worker is None:
        return []
    most = worker.replicas if worker.pod_autoscaler == "none" else worker.max_replicas
    return [Pods(names.WORKER_DEPLOYMENT, Request(cpu_millis(worker.cpu), worker.memory_mib), most or 0)]


def fleets_without_gpus(document: Document) -> list[Pods]:
    """Return the Triton pods on `nodes.cpu`, up to their maximum.

    An update removes one before it adds one (`rollout.spareGpu` of charts/triton).
    """
    found = []
    for fleet in document.each_fleet:
        triton, bounds = fleet.stack.triton, fleet.stack.autoscaling
        if triton.pool == CPU_POOL_NAME:
            most = bounds.max_replicas if bounds is not None else triton.replicas
            values = values_of(fleet.stack)
            beside = Request(values.beside_millis, values.beside)
            request = Request(cpu_millis(triton.cpu), triton.memory_gib * 1024) + beside
            found.append(Pods(fleet.release, request, most or 0, surges=False, beside=beside))
    return found


def _others(document: Document) -> Iterator[tuple[Where, Pods]]:
    """Yield the pods of add-ons and third-party charts."""
    others_cluster = document.cluster.existing is not None
    for addon in addons(document):
        for pods in ADDONS[addon]:
            # In an existing cluster, these pods belong to its owner and run on the owner's nodes.
            if pods.where != "system nodes" or not others_cluster:
                yield pods.where, _pods(pods, {}, document)
    mps = any(pool.sharing.strategy == "mps" for pool in document.gpu.pools)
    for chart in document.installed_charts:
        values = _values(chart.name)
        extra = PODS_OF_MPS if chart is NVIDIA_DEVICE_PLUGIN and mps else ()
        for pods in (*chart.pods, *extra):
            yield pods.where, _pods(pods, values, document)


def _pods(pods: PodSet, values: Mapping[str, Any], document: Document) -> Pods:
    count = pods.count
    if count == REPLICAS_OF_MONITORING:
        count = document.monitoring.replicas if document.monitoring is not None else 0
    elif isinstance(count, str):
        count = int(helm_values.value_at(values, count) or 0)
    return Pods(pods.name, _request(pods, values), int(count), pods.surges, pods.apart)


def _request(pods: PodSet, values: Mapping[str, Any]) -> Request:
    own = requested(helm_values.value_at(values, pods.request) or {}) if isinstance(pods.request, str) else pods.request
    return own + pods.beside


@cache
def _values(chart: str) -> Mapping[str, Any]:
    """Return `helm-values/<chart>/base.yaml`, or an empty mapping if no checkout has it."""
    return helm_values.base_values(chart, _ROOT) if (_ROOT / helm_values.folder(chart)).is_dir() else {}
