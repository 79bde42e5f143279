"""Waiting until a version gets no requests. With real clients: tests/system/serving/test_rollout.py."""

import pytest

from modelctl.rollout.limits import Limits
from modelctl.rollout.pods import Pods, StillAsked
from tests.modelctl.rollout.idle_fleet import IdleFleet


def pods(**limits: float) -> Pods:
    return Pods(IdleFleet([]), Limits(**limits, poll=0.001), lambda: None, lambda _: None)


def test_a_wait_that_ends_before_it_was_quiet_for_long_enough_says_so() -> None:
    with pytest.raises(StillAsked) as refusal:
        pods(drain=0, quiet=10).wait_until_unasked([("a", 1), ("b", 2)])
    assert str(refusal.value) == "0 s were too short to see for 10 s that no client asks for a version 1, b version 2"


def test_nobody_asks_where_no_pod_is() -> None:
    pods(drain=60, quiet=0.01).wait_until_unasked([("a", 1)])
