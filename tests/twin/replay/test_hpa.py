"""From numbers to pods, as the HorizontalPodAutoscaler computes it."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec.scaling.signal import busy_target, pending_target
from tests.spec.scaling.fleet import by_value
from twin.replay.hpa import SYNC_SECONDS, Autoscaler, by_average_value, by_pods_metric

PENDING, BUSY = pending_target(4, 1), busy_target(1)
SPEC: dict[str, Any] = {
    "minReplicas": 2,
    "maxReplicas": 12,
    "behavior": {
        "scaleUp": {
            "stabilizationWindowSeconds": 30,
            "policies": [
                {"type": "Pods", "value": 2, "periodSeconds": 120},
                {"type": "Percent", "value": 50, "periodSeconds": 120},
            ],
        },
        "scaleDown": {
            "stabilizationWindowSeconds": 600,
            "policies": [{"type": "Pods", "value": 1, "periodSeconds": 180}],
        },
    },
}


@pytest.mark.parametrize(
    ("waiting", "busy", "by_queue", "by_instances"),
    [
        # The run recorded on two pods (docs/facts/triton-metrics.md#two-pods): each number sees what the other misses.
        pytest.param(8, 1.9, 2, 3, id="10-14/s: no queue asks for more, but one pod is 95 % busy"),
        pytest.param(40, 2.0, 10, 3, id="34/s: the instances can be no more than all busy"),
        pytest.param(168, 2.0, 42, 3, id="34/s, later"),
        pytest.param(0, 0.0, 0, 0, id="idle"),
    ],
)
def test_the_recorded_loads(waiting: float, busy: float, by_queue: int, by_instances: int) -> None:
    assert by_average_value(waiting, PENDING, 2) == by_queue
    assert by_average_value(busy, BUSY, 2) == by_instances


@pytest.mark.parametrize(("total", "pods"), [(35, 4), (36, 4), (43, 4), (45, 5), (28, 3), (36.1, 4)])
def test_within_a_tenth_of_the_target_nothing_changes(total: float, pods: int) -> None:
    assert by_average_value(total, 10, 4) == pods


def test_of_a_sum_the_pods_that_are_still_loading_do_not_change_what_is_wanted() -> None:
    assert [by_average_value(40, 4, current) for current in (2, 5, 9, 20)] == [10, 10, 10, 10]
    assert [by_value(40, 4, current) for current in (2, 5, 9, 20)] == [20, 50, 90, 200]


@pytest.mark.parametrize(
    ("values", "missing", "pending", "pods"),
    [
        pytest.param([8, 8], 0, 0, 4, id="twice the target"),
        pytest.param([8, 8], 2, 0, 4, id="two without a value count as 0, so four are enough"),
        pytest.param([8, 8], 0, 2, 4, id="two that start count as 0"),
        pytest.param([2, 2], 0, 0, 1, id="half the target"),
        pytest.param([2, 2], 2, 0, 3, id="two without a value count as loaded"),
        pytest.param([2, 2], 0, 1, 1, id="one that starts is not looked at when there shall be fewer"),
        pytest.param([3.9, 3.9], 2, 0, 4, id="with those without a value it would be the other way round"),
        pytest.param([], 2, 0, None, id="no values at all: an error"),
    ],
)
def test_pods_without_a_value_are_counted_cautiously(
    values: list[float], missing: int, pending: int, pods: int | None
) -> None:
    current = len(values) + missing + pending
    assert by_pods_metric(values, 4, current, missing=missing, pending=pending) == pods


@given(st.lists(st.floats(0, 100), min_size=1, max_size=20))
def test_with_every_pod_at_work_both_kinds_of_metric_ask_for_the_same(values: list[float]) -> None:
    mean = round(sum(values) / len(values), 3)
    assert by_pods_metric([mean] * len(values), 4, len(values)) == by_average_value(mean * len(values), 4, len(values))


def test_a_metric_that_cannot_be_read_keeps_pods_and_forbids_no_more_of_them() -> None:
    assert [Autoscaler({"maxReplicas": 9}).decide(0, 3, asked) for asked in ([None], [None, 2], [None, 5])] == [3, 3, 5]


def test_without_a_behavior_the_defaults_of_the_api_hold() -> None:
    autoscaler, current, made = Autoscaler({"minReplicas": 1, "maxReplicas": 100}), 2, []
    for look in range(3):
        current = autoscaler.decide(look * SYNC_SECONDS, current, [100])
        made.append(current)
    assert made == [6, 12, 24], "four pods or twice as many in 15 s"
    assert autoscaler.decide(329, current, [1]) == 24, "none is taken that was wanted within 300 s"
    assert autoscaler.decide(344, current, [1]) == 1


def decisions(proposals: list[int], current: int) -> list[int]:
    autoscaler, made = Autoscaler(SPEC), []
    for look, proposal in enumerate(proposals):
        current = autoscaler.decide(look * SYNC_SECONDS, current, [proposal])
        made.append(current)
    return made


def test_a_peak_that_is_over_at_the_next_look_starts_nothing() -> None:
    assert decisions([2, 2, 12, 2, 2], 2) == [2, 2, 2, 2, 2]


def test_more_comes_in_steps_of_the_time_that_a_start_takes() -> None:
    assert decisions([12] * 27, 2) == [2] * 2 + [4] * 8 + [6] * 8 + [9] * 8 + [12]


def test_fewer_comes_one_by_one_and_only_after_nobody_wanted_more_for_long() -> None:
    made = decisions([6] + [2] * 100, 6)
    looks = [look for look, pods in enumerate(made) if look and pods != made[look - 1]]
    assert [made[look] for look in looks] == [5, 4, 3, 2]
    assert looks[0] * SYNC_SECONDS == 600
    assert {(b - a) * SYNC_SECONDS for a, b in pairwise(looks)} == {180}


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=120), st.integers(2, 12))
def test_never_more_than_the_most_never_fewer_than_the_fewest_and_never_faster_than_allowed(
    proposals: list[int], current: int
) -> None:
    made = [current, *decisions(proposals, current)]
    assert all(2 <= pods <= 12 for pods in made[1:])
    steps = 120 // SYNC_SECONDS
    for look, pods in enumerate(made):
        before = min(made[max(0, look - steps) : look + 1])
        assert pods <= max(before + 2, -(-before * 3 // 2)) or look == 0
