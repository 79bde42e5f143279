"""Resource requests of rendered pods, in the terms of `spec.settings.scheduling`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from spec import helm_values
from spec.charts import CHARTS
from spec.pod_sets import NOTHING, Request
from spec.settings.scheduling.requests import requested
from tests.paths import ROOT

WORKLOADS = ("DaemonSet", "Deployment", "StatefulSet", "ReplicaSet", "Job", "CronJob", "Pod")


def of_pod(pod: Mapping[str, Any]) -> Request:
    """Return a pod's request; of containers that terminate before the others, the largest counts."""
    total, before = NOTHING, NOTHING
    for container in pod["containers"]:
        total = total + requested(container.get("resources") or {})
    for container in pod.get("initContainers") or ():
        one = requested(container.get("resources") or {})
        before = Request(max(before.millis, one.millis), max(before.mib, one.mib))
    return Request(max(total.millis, before.millis), max(total.mib, before.mib))


def of_objects(objects: Iterable[Mapping[str, Any]]) -> dict[str, tuple[int | None, Request]]:
    """Return each workload's replicas (None: another controller's number) and its pods' requests, by name."""
    return {
        item["metadata"]["name"]: (item["spec"].get("replicas"), of_pod(item["spec"]["template"]["spec"]))
        for item in objects
        if item["kind"] in WORKLOADS
    }


def counted(chart: str) -> dict[str, tuple[int | None, Request]]:
    """Return the same for a chart's pods as the capacity rules count them, from its `base.yaml`."""
    values = helm_values.base_values(chart, ROOT)
    found: dict[str, tuple[int | None, Request]] = {}
    for one in CHARTS[chart].pods:
        count = at(values, one.count) if isinstance(one.count, str) else one.count
        asked = requested(at(values, one.request)) if isinstance(one.request, str) else one.request
        found[one.name] = (count, asked + one.beside)
    return found


def at(values: Mapping[str, Any], path: str) -> Any:
    """Return the value at a dotted path. Raises KeyError if it does not exist."""
    found: Any = values
    for key in path.split("."):
        found = found[key]
    return found


def paths_of_requests(values: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield the paths in a chart's values with CPU or memory requests below them."""
    for key, value in values.items():
        if not isinstance(value, Mapping):
            continue
        if key == "requests":
            if {"cpu", "memory"} & value.keys():
                yield path
        else:
            yield from paths_of_requests(value, f"{path}.{key}" if path else key)
