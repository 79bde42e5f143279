"""How fast Triton's pods are added and removed, derived from the start time of a pod.

The results are fields of `autoscaling/v2`, which KEDA passes on to the HorizontalPodAutoscaler that it creates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spec.problem import Problem
from spec.prometheus.rule import scaling_window_seconds
from spec.prometheus.timing import pod_start_seconds, start_seconds, timing
from spec.settings.model import Settings

_SETTLE_SECONDS = 30
"""The stabilization for metrics that are not averaged, which a HorizontalPodAutoscaler reads from prometheus-adapter."""
_MORE_IN_A_START = {"Pods": 4, "Percent": 300}
_FEWER_IN_A_STEP = {"Pods": 1, "Percent": 50}
_SHORTEST_LOOK_BACK_SECONDS = 600
_WINDOWS_IN_A_LOOK_BACK = 2
"""The number of scaling windows to look back: a random value in one window is not in the next."""
_SHORTEST_LOOK_BACK_TO_NO_POD_SECONDS = 300
_SHORTEST_STEP_DOWN_SECONDS = 180
# Limits of the API.
_LONGEST_LOOK_BACK_SECONDS = 3600
_LONGEST_PERIOD_SECONDS = 1800


def assumptions(settings: Settings) -> list[Problem]:
    """Return a warning for each fleet whose scaling pace is not based on a measurement."""
    return [fleet.problem(found) for fleet in settings.each_fleet for found in _assumed(fleet.stack)]


def _assumed(settings: Settings) -> list[Problem]:
    if settings.autoscaling is None or settings.autoscaling.start_seconds is not None:
        return []
    startup, node = timing(settings).start, start_seconds(settings) - timing(settings).start
    return [
        Problem(
            "autoscaling.startSeconds",
            f"is missing; the pace of scaling assumes that a pod takes {start_seconds(settings)} s from wanted to ready: "
            f"{startup} s are the limit of its startup probe{f' and {node} s the start of a node' if node else ''}, and "
            "nothing of it is measured; "
            "give what the panel 'Time to ready' of the dashboard 'Triton: scaling' shows for new pods",
        )
    ]


def behavior(settings: Settings) -> dict[str, Any]:
    """Return `scaleUp` and `scaleDown` of a fleet.

    Scaling up: the pods may quadruple at once or grow by four, and again after the time of a start. While pods start, their
    backlog keeps growing, and without a limit it would request all pods. A lower limit loses requests for several starts if
    the load is many times the usual one (benchmarks/autoscaling.md#pace). A single scrape may see a queue that is empty a
    moment later (tests/spec/scaling/test_chance.py). Therefore KEDA reads the mean of half a minute. If each reading has the
    value of one scrape, the demand has to last for two readings.

    Scaling down: at most half of the pods at a time, and only pods that were not needed within the last two starts, because
    restoring a pod takes one start. If no queue holds requests that can no longer be answered in time, no backlog
    exaggerates the load, and a shorter time is enough. Then it is the part of a start that a pod takes on an existing node,
    because a node outlives its pods and a pod is restored in that time. If the last pod may be removed, it is one start. A
    stack may configure the time (`autoscaling.scaleDownAfterSeconds`); then a step takes that time at most, or one start.
    """
    start = start_seconds(settings)
    period = min(start, _LONGEST_PERIOD_SECONDS)
    wanted = settings.autoscaling.scale_down_after_seconds if settings.autoscaling is not None else None
    look_back = wanted or min(_look_back(settings, start), _LONGEST_LOOK_BACK_SECONDS)
    step_down = max(period, min(_SHORTEST_STEP_DOWN_SECONDS, look_back))
    return {
        "scaleUp": {
            "stabilizationWindowSeconds": 0 if settings.pod_autoscaler == "keda" else _SETTLE_SECONDS,
            "selectPolicy": "Max",
            "policies": _policies(_MORE_IN_A_START, period),
        },
        "scaleDown": {
            "stabilizationWindowSeconds": look_back,
            "policies": _policies(_FEWER_IN_A_STEP, step_down),
        },
    }


def _look_back(settings: Settings, start: int) -> int:
    serving = settings.models.serving.values()
    windows = _WINDOWS_IN_A_LOOK_BACK * max((scaling_window_seconds(wants) for wants in serving), default=0)
    if not serving or not all(wants.queue_is_bounded for wants in serving):
        return max(2 * start, _SHORTEST_LOOK_BACK_SECONDS, windows)
    if settings.fewest_pods == 0:
        return max(start, _SHORTEST_LOOK_BACK_TO_NO_POD_SECONDS, windows)
    return max(pod_start_seconds(settings), windows)


def _policies(most: Mapping[str, int], period: int) -> list[dict[str, Any]]:
    return [{"type": kind, "value": value, "periodSeconds": period} for kind, value in most.items()]
