"""Read from an exported state who serves in it: the Deployments of Triton, and how many pods each of them keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spec.names import POD_RELEASE_LABEL, TRITON_CONTAINER, TRITON_NAMESPACE
from twin.rehearse.judgement import LEAST
from twin.rehearse.state import State

_DEPLOYMENT = "kubernetes:apps/v1:Deployment"
_GPUS = "nvidia.com/"


@dataclass(frozen=True)
class Server:
    """A Deployment of Triton. `release` None: that of a rollout in place. `gpus`: what each of its pods asks for, like
    `1 nvidia.com/gpu`. `pods`: how many its autoscaler keeps at least, one where that may be none, or else how many it says.
    """

    name: str
    release: str | None
    gpus: str | None
    pods: int


def servers(found: State) -> list[Server]:
    """Return the Deployments of Triton that a state has."""
    return list(_servers(found.resources))


def least_pods(found: State) -> int:
    """Return how many pods every Deployment of Triton keeps that has any: those of the one with the fewest."""
    return min((one.pods for one in servers(found) if one.pods), default=1)


def _servers(resources: Sequence[Mapping[str, Any]]) -> Iterator[Server]:
    kept = dict(_kept(resources))
    for one in resources:
        inputs = one.get("inputs")
        if one["type"] != _DEPLOYMENT or one.get("delete") or _at(inputs, "metadata", "namespace") != TRITON_NAMESPACE:
            continue
        template = _at(inputs, "spec", "template")
        listed = _at(template, "spec", "containers")
        containers = [one for one in listed if _at(one, "name") == TRITON_CONTAINER] if isinstance(listed, list) else []
        release = _at(template, "metadata", "labels", POD_RELEASE_LABEL)
        if containers:
            name, replicas = str(_at(inputs, "metadata", "name")), _at(inputs, "spec", "replicas")
            # Where an autoscaler has the number, the Deployment may still say the one from before it (`ignoreChanges`).
            pods = kept.get(name, replicas if isinstance(replicas, int) else 1)
            yield Server(name, release if isinstance(release, str) else None, _gpus(containers[0]), pods)


def _kept(resources: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, int]]:
    """Yield, by name, the least pods of each Deployment of the namespace that an autoscaler has the number of."""
    for one in resources:
        inputs, key = one.get("inputs"), LEAST.get(one["type"])
        if key is None or one.get("delete") or _at(inputs, "metadata", "namespace") != TRITON_NAMESPACE:
            continue
        least = _at(inputs, "spec", key)
        if isinstance(least, int):
            yield str(_at(inputs, "spec", "scaleTargetRef", "name")), max(1, least)


def _gpus(container: Any) -> str | None:
    limits = _at(container, "resources", "limits")
    found = [f"{limits[key]} {key}" for key in limits if key.startswith(_GPUS)] if isinstance(limits, Mapping) else []
    return found[0] if found else None


def _at(value: Any, *path: str) -> Any:
    """Return what stands there; None where something on the way is no object, as what is encrypted is none."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
