"""User-defined values of Triton's chart that the rules of the settings depend on."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from spec.helm_values import local_chart, rendered_values, value_at
from spec.names import TRITON_CHART
from spec.settings.fields import cpu_millis
from spec.settings.model import Document

_ROOT = Path(__file__).resolve().parents[2]
_CPU = re.compile(r"[0-9]+m?|[0-9]+\.[0-9]{1,3}")
_SIZE = re.compile(r"[1-9][0-9]{0,9}(Mi|Gi)")


@dataclass(frozen=True)
class PodValues:
    """The sizes and times of Triton's pods and the extra objects, from the chart and `helm-values/triton`.

    Sizes are in MiB; the defaults are the chart's.

    `shm` and `server`: the size of /dev/shm, and the memory that has to remain for the server; 0 if unknown.
    `tmp`: the size of /tmp.
    `extra_disk` and `extra_memory`: the additional volumes on disk and in memory.
    `beside_millis` and `beside`: CPU and memory of the other containers.
    `cache_copies` and `smallest_cache`: how many copies of the release the cache volume holds, and its minimum size.
    `follower_millis` and `follower`: CPU and memory of the container that copies releases (access local, rollout in place).
    `pre_stop` and `longest_request`: seconds from a pod's termination to SIGTERM, and seconds that it waits for requests.
    `extra_objects`: kind and name of each object that is installed in addition to the pods.
    """

    shm: int = 0
    server: int = 0
    tmp: int = 1024
    cache_copies: int = 2
    smallest_cache: int = 1024
    extra_args: tuple[str, ...] = ()
    extra_disk: int = 0
    extra_memory: int = 0
    beside_millis: int = 0
    beside: int = 0
    follower_millis: int = 250
    follower: int = 256
    pre_stop: int = 15
    longest_request: int = 60
    extra_objects: tuple[str, ...] = ()


CHART_DEFAULTS = PodValues()


@cache
def pod_values(environment: str) -> PodValues:
    """Return the pod values of an environment; the chart's defaults if no checkout of the chart exists.

    A value of the wrong type counts as its default, because the chart's schema refuses it with a message.
    """
    if not environment or not (_ROOT / local_chart(TRITON_CHART)).is_dir():
        return CHART_DEFAULTS
    values, default = rendered_values(TRITON_CHART, environment, _ROOT), CHART_DEFAULTS
    copies, arguments = value_at(values, "modelCache.headroom"), value_at(values, "server.extraArgs")
    pre_stop, longest = (value_at(values, f"drain.{name}Seconds") for name in ("preStop", "longestRequest"))
    # An init container without a restartPolicy exits before the server starts.
    inits = [container for container in _list(values, "extraInitContainers") if container.get("restartPolicy") == "Always"]
    beside = [*_list(values, "extraContainers"), *inits]
    volumes = [volume for item in _list(values, "extraVolumes") if isinstance(volume := item.get("emptyDir"), Mapping)]
    return PodValues(
        shm=mebibytes(value_at(values, "shm.size"), default.shm),
        server=mebibytes(value_at(values, "shm.memoryMargin"), default.server),
        tmp=mebibytes(value_at(values, "tmp.size"), default.tmp),
        cache_copies=copies if isinstance(copies, int) else default.cache_copies,
        smallest_cache=mebibytes(value_at(values, "modelCache.minimumSize"), default.smallest_cache),
        extra_args=tuple(str(argument) for argument in arguments) if isinstance(arguments, list) else (),
        extra_disk=sum(mebibytes(volume.get("sizeLimit"), 0) for volume in volumes if volume.get("medium") != "Memory"),
        extra_memory=sum(mebibytes(volume.get("sizeLimit"), 0) for volume in volumes if volume.get("medium") == "Memory"),
        beside_millis=sum(_millis(value_at(container, "resources.cpu")) for container in beside),
        beside=sum(mebibytes(value_at(container, "resources.memory"), 0) for container in beside),
        follower_millis=_millis(value_at(values, "modelRepository.fetch.follower.cpu")) or default.follower_millis,
        follower=mebibytes(value_at(values, "modelRepository.fetch.follower.memory"), default.follower),
        pre_stop=pre_stop if isinstance(pre_stop, int) else default.pre_stop,
        longest_request=longest if isinstance(longest, int) else default.longest_request,
        extra_objects=tuple(
            f"{item.get('kind')} {value_at(item, 'metadata.name')}" for item in _list(values, "extraObjects")
        ),
    )


def values_of(document: Document) -> PodValues:
    """Return the pod values of a stack; the chart's defaults if its environment is missing or misspelt."""
    said: str | None = document.__dict__.get("environment")
    values, models, triton = pod_values(said or ""), document.__dict__.get("models"), document.__dict__.get("triton")
    if models is None or triton is None or models.__dict__.get("access") != "local" or triton.rollout != "in-place":
        return values
    return replace(
        values, beside_millis=values.beside_millis + values.follower_millis, beside=values.beside + values.follower
    )


def _list(values: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = values.get(key)
    return [item for item in found if isinstance(item, Mapping)] if isinstance(found, list) else []


def _millis(cpu: Any) -> int:
    return cpu_millis(cpu) if isinstance(cpu, str) and _CPU.fullmatch(cpu) else 0


def mebibytes(size: Any, default: int) -> int:
    """Return a quantity in MiB; the default if its unit is neither `Mi` nor `Gi`."""
    if not isinstance(size, str) or not _SIZE.fullmatch(size):
        return default
    return int(size[:-2]) * {"Mi": 1, "Gi": 1024}[size[-2:]]
