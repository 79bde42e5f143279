"""How long the pods that run took to start, by the times that Kubernetes has noted on them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from spec.names import TRITON_CONTAINER
from stackctl.cold_start.stages import IMAGE, MODELS, NODE, VOLUMES


@dataclass(frozen=True)
class Start:
    """How a pod started: its name, and the seconds of each stage by the stage's name. Kubernetes notes whole seconds."""

    pod: str
    seconds: Mapping[str, int]

    @property
    def total(self) -> int:
        """Return the seconds from wanted to ready."""
        return sum(self.seconds.values())


def start_of(pod: Mapping[str, Any]) -> Start | None:
    """Return how a pod of Triton started; None where it cannot be told.

    That is so while it is not ready, or ends, and once its server was started again: Kubernetes keeps the last times alone.
    For the same reason a pod that was not ready for a while looks slower than it was.
    """
    metadata, status = pod.get("metadata") or {}, pod.get("status") or {}
    since = {
        condition["type"]: condition.get("lastTransitionTime")
        for condition in status.get("conditions") or ()
        if condition.get("status") == "True"
    }
    server: Mapping[str, Any] = next(
        (one for one in status.get("containerStatuses") or () if one.get("name") == TRITON_CONTAINER), {}
    )
    if metadata.get("deletionTimestamp") or server.get("restartCount"):
        return None
    times = [
        metadata.get("creationTimestamp"),
        since.get("PodScheduled"),
        since.get("Initialized"),
        ((server.get("state") or {}).get("running") or {}).get("startedAt"),
        since.get("Ready"),
    ]
    if None in times:
        return None
    moments = [datetime.fromisoformat(time) for time in times if time is not None]
    taken = [max(0, round((end - begin).total_seconds())) for begin, end in itertools.pairwise(moments)]
    return Start(str(metadata.get("name")), dict(zip((NODE, VOLUMES, IMAGE, MODELS), taken, strict=True)))


def slowest(starts: Sequence[Start]) -> Start:
    """Return the start that took longest, which the pace of autoscaling has to allow for."""
    return max(starts, key=lambda start: start.total)
