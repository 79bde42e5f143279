"""Read from a state, or from what a program intends, who serves: Triton's Deployments, and how many pods each keeps."""

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
    """A Deployment of Triton. `release` None: that of a rollout in place. `gpus`: what each of its pods asks for, like
    `1 nvidia.com/gpu`. `pods`: how many its autoscaler keeps at least, one where that may be none, or else how many it says.
    `reads_bucket`: whether its models come from S3, by Triton itself or by a container that fetches them first.
    """

    name: str
    release: str | None
    gpus: str | None
    pods: int
    reads_bucket: bool


def servers(found: State) -> list[Server]:
    """Return the Deployments of Triton that a state has."""
    return servers_of((one["type"], one.get("inputs")) for one in found.resources if not one.get("delete"))


def servers_of(objects: Iterable[tuple[str, Any]]) -> list[Server]:
    """Return those among resources, each given by its type and inputs."""
    return list(_servers(list(objects)))


def least_pods(found: State) -> int:
    """Return how many pods every Deployment of Triton keeps that has any: those of the one with the fewest."""
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
            # Where an autoscaler has the number, the Deployment may still say the one from before it (`ignoreChanges`).
            pods = kept.get(name, replicas if isinstance(replicas, int) else 1)
            reads_bucket = _reads_bucket(containers[0], at(template, "spec", "initContainers") or ())
            yield Server(name, release if isinstance(release, str) else None, _gpus(containers[0]), pods, reads_bucket)


def _kept(objects: Sequence[tuple[str, Any]]) -> Iterator[tuple[str, int]]:
    """Yield, by name, the least pods of each Deployment of the namespace that an autoscaler has the number of."""
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
    """Return what stands there; None where something on the way is no object, as what is encrypted is none."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
