"""How fast Triton's pods may become more and fewer: it follows from the time that one needs to start.

As fields of `autoscaling/v2`, which KEDA passes on to the HorizontalPodAutoscaler that it makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spec.problem import Problem
from spec.prometheus.rule import scaling_window_seconds
from spec.prometheus.timing import pod_start_seconds, start_seconds, timing
from spec.settings.model import Settings

_SETTLE_SECONDS = 30
"""Of numbers that are not averaged: those that a HorizontalPodAutoscaler asks prometheus-adapter for."""
_MORE_IN_A_START = {"Pods": 4, "Percent": 300}
_FEWER_IN_A_STEP = {"Pods": 1, "Percent": 50}
_SHORTEST_LOOK_BACK_SECONDS = 600
_WINDOWS_IN_A_LOOK_BACK = 2
"""Of the numbers that pods are scaled on: what one window shows by chance, the next does not."""
_SHORTEST_LOOK_BACK_TO_NO_POD_SECONDS = 300
_SHORTEST_STEP_DOWN_SECONDS = 180
# What the API accepts.
_LONGEST_LOOK_BACK_SECONDS = 3600
_LONGEST_PERIOD_SECONDS = 1800


def assumptions(settings: Settings) -> list[Problem]:
    """Return a warning where pods are scaled at a pace that nobody has measured."""
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
    """`scaleUp` and `scaleDown`.

    More: at once four times the pods that there are, or four more, and again after the time that a start takes. While they
    start, the backlog that they are for goes on growing, and without a limit it would ask for all pods that there may be; a
    lower limit loses requests for several starts where the load is many times the usual one
    (benchmarks/autoscaling.md#pace). One scrape may come upon a queue that is empty a moment later, by chance alone
    (tests/spec/scaling/test_chance.py): KEDA asks for the mean of half a minute, and where each look has the number of one
    scrape, what asks for pods has to last for two looks.

    Fewer: half of them at a time, and none that would have been wanted within the last two starts: having it back would take
    one. Where no queue holds what can no longer be answered in time, no backlog asks for more pods than the load, and less
    than two starts is looked back: the part of a start that a pod takes on a node that is there, because a node outlives its
    pods, and having a pod back takes no longer; one start where the last pod may go. A stack may say how long to wait
    (`autoscaling.scaleDownAfterSeconds`); a step then takes no longer, or one start.
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
