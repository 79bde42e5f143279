"""Measure the start of running pods from the timestamps in their status."""

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
    """The start of a pod: its name, and the seconds of each stage.

    Kubernetes records whole seconds.
    """

    pod: str
    seconds: Mapping[str, int]

    @property
    def total(self) -> int:
        """Return the seconds from creation to ready."""
        return sum(self.seconds.values())


def start_of(pod: Mapping[str, Any]) -> Start | None:
    """Return the start of a Triton pod; None if it is unknown.

    It is unknown while the pod is not ready or terminates, and after a restart of its server, because Kubernetes keeps
    only the last times. For the same reason, a pod that was temporarily not ready seems slower than it was.
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
    """Return the longest start, which the pace of autoscaling must allow for."""
    return max(starts, key=lambda start: start.total)
