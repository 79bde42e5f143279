"""KEDA's part: the autoscaler's values between two polls, in an outage, and at certain hours."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from spec.scaling.manifests import scaled_object_spec
from tests.spec.stack_config import settings
from tests.spec.test_stack_mistakes_autoscaling import FLOOR, SCALED, scaling
from twin.replay.cron import Cron
from twin.replay.keda import ScaledObject, autoscaler_of

ZURICH = ZoneInfo("Europe/Zurich")


def spec(**bounds: Any) -> dict[str, Any]:
    keys = {"gpu.pools[0].desired": 8, "gpu.pools[0].max": 8, "autoscaling": scaling(maxReplicas=8, **bounds)}
    return scaled_object_spec(settings({**SCALED, **keys}), "http://prometheus:9090")


def with_fallback(replicas: int) -> dict[str, Any]:
    given = spec()
    return {**given, "fallback": {**given["fallback"], "replicas": replicas}}


def test_between_two_questions_the_last_answer_holds() -> None:
    scaled = ScaledObject(spec())
    assert scaled.polling_seconds == 5
    assert scaled.proposals(0, 2) == [None, None], "before the first question there is none"
    scaled.poll({"pending-classify": 40.0, "busy-classify": 1.4}, 2)
    assert scaled.proposals(0, 2) == [5, 2]
    assert scaled.proposals(4, 4) == [5, 2]


def test_an_outage_is_an_error_and_then_holds_the_pods_that_there_are() -> None:
    scaled, away = ScaledObject(with_fallback(3)), {"pending-classify": None, "busy-classify": 1.4}
    for _ in range(12):
        scaled.poll(away, 5)
    scaled.poll(away, 5)
    assert scaled.proposals(0, 5) == [5, 2]
    scaled = ScaledObject(with_fallback(3))
    for _ in range(13):
        scaled.poll(away, 2)
    assert scaled.proposals(0, 2) == [3, 2], "the fallback has the fewest"
    scaled.poll({"pending-classify": 0.0, "busy-classify": 1.4}, 2)
    assert scaled.proposals(0, 2) == [0, 2]


def test_a_look_at_an_error_counts_as_one_and_a_look_at_the_fallback_as_an_answer() -> None:
    scaled, away = ScaledObject(with_fallback(3)), {"pending-classify": None, "busy-classify": None}
    seen = []
    for question in range(1, 34):
        scaled.poll(away, 1)
        if question % 3 == 0:
            seen.append((question, scaled.proposals(0, 1)[0]))
    # 4 failures in 3 polls: 12 at the look after the 9th, 13 with the 10th poll, whose number the 12th has. Its look counts
    # as an answer, and the count restarts: 4, 8 and 12 failures with the looks after the 15th, 18th and 21st.
    assert [question for question, pods in seen if pods is not None] == [12, 24]
    assert {pods for _, pods in seen} == {None, 3}


def test_the_autoscaler_that_keda_makes_has_the_bounds_and_the_pace() -> None:
    made = autoscaler_of(spec())
    assert (made["minReplicas"], made["maxReplicas"]) == (1, 8)
    assert made["behavior"]["scaleDown"]["policies"] == [
        {"type": "Pods", "value": 1, "periodSeconds": 300},
        {"type": "Percent", "value": 50, "periodSeconds": 300},
    ]


def test_a_floor_is_a_trigger() -> None:
    scaled = ScaledObject(spec(cronFloor={**FLOOR, "replicas": 4}))
    monday = datetime(2026, 1, 5, tzinfo=ZURICH).timestamp()
    assert [scaled.proposals(monday + hour * 3600, 1)[-1] for hour in (6, 8, 18, 20)] == [0, 4, 4, 0]


@pytest.mark.parametrize(
    ("start", "end", "moment", "holds"),
    [
        ("0 7 * * 1-5", "0 19 * * 1-5", "2026-01-09 18:59", True),  # a Friday
        ("0 7 * * 1-5", "0 19 * * 1-5", "2026-01-10 12:00", False),
        ("0 22 * * *", "0 6 * * *", "2026-01-10 23:00", True),
        ("0 22 * * *", "0 6 * * *", "2026-01-10 05:59", True),
        ("0 22 * * *", "0 6 * * *", "2026-01-10 06:00", False),
        ("0 7 * * *", "0 19 * * *", "2026-07-10 07:00", True),  # in summer, an hour earlier in UTC
        ("0 0 1 * *", "0 0 2 * *", "2026-02-01 12:00", True),
        ("0 0 1 * 1", "0 12 1 * 1", "2026-01-05 06:00", True),  # both the first and Mondays
    ],
)
def test_when_a_floor_holds(start: str, end: str, moment: str, holds: bool) -> None:
    cron = Cron({"timezone": "Europe/Zurich", "start": start, "end": end, "desiredReplicas": "4"})
    at = datetime.fromisoformat(moment).replace(tzinfo=ZURICH).timestamp()
    assert cron.value(at) == (4 if holds else 0)
