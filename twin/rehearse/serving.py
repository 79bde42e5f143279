"""Read Triton's Deployments and the minimum pods of each from a state, or from a program's plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spec.names import POD_RELEASE, TRITON_CONTAINER, TRITON_NAMESPACE
from twin.rehearse.judgement import LEAST
from twin.rehearse.state import State

DEPLOYMENT = "kubernetes:apps/v1:Deployment"
_GPUS = "nvidia.com/"
_FROM_BUCKET = "--model-repository=s3://"


@dataclass(frozen=True)
class Server:
    """A Deployment of Triton. `release` is None if rollouts change its models in place.

    `gpus`: the GPU request of each pod, like `1 nvidia.com/gpu`. `pods`: its autoscaler's minimum, but at least 1, or its
    own number of replicas without an autoscaler. `reads_bucket`: whether its models come from S3, read by Triton or by an
    init container that fetches them.
    """

    name: str
    release: str | None
    gpus: str | None
    pods: int
    reads_bucket: bool


def servers(found: State) -> list[Server]:
    """Return a state's Deployments of Triton."""
    return servers_of((one["type"], one.get("inputs")) for one in found.resources if not one.get("delete"))


def servers_of(objects: Iterable[tuple[str, Any]]) -> list[Server]:
    """Return the Deployments of Triton among resources, each given by its type and inputs."""
    return list(_servers(list(objects)))


def least_pods(found: State) -> int:
    """Return the smallest minimum number of pods among Triton's Deployments that have any."""
    return min((one.pods for one in servers(found) if one.pods), default=1)


def _servers(objects: Sequence[tuple[str, Any]]) -> Iterator[Server]:
    kept = dict(_kept(objects))
    for type_, inputs in objects:
        if type_ != DEPLOYMENT or at(inputs, "metadata", "namespace") != TRITON_NAMESPACE:
            continue
        template = at(inputs, "spec", "template")
        listed = at(template, "spec", "containers")
        containers = [one for one in listed if at(one, "name") == TRITON_CONTAINER] if isinstance(listed, list) else []
        release = at(template, "metadata", "annotations", POD_RELEASE)
        if containers:
            name, replicas = str(at(inputs, "metadata", "name")), at(inputs, "spec", "replicas")
            # If an autoscaler scales the Deployment, its manifest may have an old number (`ignoreChanges`).
            pods = kept.get(name, replicas if isinstance(replicas, int) else 1)
            reads_bucket = _reads_bucket(containers[0], at(template, "spec", "initContainers") or ())
            yield Server(name, release if isinstance(release, str) else None, _gpus(containers[0]), pods, reads_bucket)


def _kept(objects: Sequence[tuple[str, Any]]) -> Iterator[tuple[str, int]]:
    """Yield the name and minimum replicas of each Deployment of the namespace that an autoscaler scales."""
    for type_, inputs in objects:
        key = LEAST.get(type_)
        if key is None or at(inputs, "metadata", "namespace") != TRITON_NAMESPACE:
            continue
        least = at(inputs, "spec", key)
        if isinstance(least, int):
            yield str(at(inputs, "spec", "scaleTargetRef", "name")), max(1, least)


def _reads_bucket(container: Any, initial: Iterable[Any]) -> bool:
    words = [word for key in ("command", "args") if isinstance(listed := at(container, key), list) for word in listed]
    from_bucket = any(str(word).startswith(_FROM_BUCKET) for word in words) or any(map(fetches, initial))
    return "tritonserver" in words and from_bucket


def fetches(container: Any) -> bool:
    """Return whether an init container copies a release from the bucket to the pod's disk (charts/triton, `_fetch.tpl`)."""
    words = [*(at(container, "command") or ()), *(at(container, "args") or ())]
    return words[:4] == ["python", "-m", "modelctl", "fetch"]


def _gpus(container: Any) -> str | None:
    limits = at(container, "resources", "limits")
    found = [f"{limits[key]} {key}" for key in limits if key.startswith(_GPUS)] if isinstance(limits, Mapping) else []
    return found[0] if found else None


def at(value: Any, *path: str) -> Any:
    """Return the value at a path; None if a value on the way is not a mapping, as with encrypted values."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
