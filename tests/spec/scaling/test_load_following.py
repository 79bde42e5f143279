"""The measured fleet under a load, with our bounds, targets and pace: it follows, stays stable, stops at the cap."""

import math
from typing import Any

import pytest

from spec.scaling.manifests import autoscaler_spec
from spec.scaling.signal import signals
from spec.settings import Settings
from tests.spec.scaling.fleet import BATCH_SECONDS, CAPACITY, Asks, Run, by_value, simulate
from tests.spec.stack_config import settings
from tests.spec.test_stack_mistakes_autoscaling import CLASSIFY, HPA, scaling
from twin.replay.hpa import SYNC_SECONDS, Autoscaler, by_average_value

START_SECONDS = 120
HOUR = 3600


def stack(most: int = 12) -> Settings:
    """Return a stack with 2 to `most` measured pods."""
    model = {**CLASSIFY, "maxBatchSize": 4}
    bounds = scaling(minReplicas=2, maxReplicas=most, startSeconds=START_SECONDS)
    nodes = {"gpu.pools[0].max": 50, "nodes.autoscaler": "cluster-autoscaler"}
    return settings({**HPA, **nodes, "models.serving": {"classify": model}, "autoscaling": bounds})


def under(
    load: Any, read: Settings, *, seconds: int = HOUR, start: float = START_SECONDS, asks: Asks = by_average_value
) -> Run:
    targets = {signal.name.partition("-")[0]: signal.target for signal in signals(read)}
    return simulate(autoscaler_spec(read), load, seconds=seconds, start_seconds=start, targets=targets, asks=asks)


def enough(rate: float) -> int:
    """Return the pods of a stable fleet: no pod is busier than its target."""
    return math.ceil(rate * BATCH_SECONDS / 0.7)


@pytest.mark.parametrize("rate", [1, 4, 12, 34])
def test_a_load_that_stays_is_met_and_then_nothing_changes_any_more(rate: float) -> None:
    run = under(lambda now: rate, stack())
    settled = run.pods[len(run.pods) // 2 :]
    assert set(settled) == {max(2, enough(rate))}
    # More pods at first if the fleet begins overloaded, because it must also answer its backlog.
    assert run.turns() == (1 if rate == 34 else 0)
    assert run.waiting[-1] == 0


def test_the_fleet_follows_a_load_up_and_down() -> None:
    """The recorded step, 12/s to 34/s and back."""
    run = under(lambda now: 34 if 600 <= now < 2400 else 12, stack(), seconds=2 * HOUR)
    at = {now: run.pods[now // SYNC_SECONDS] for now in (585, 1200, 2385, 2 * HOUR - SYNC_SECONDS)}
    assert at[585] == enough(12)
    assert at[1200] * CAPACITY > 34, "there is room for the load ten minutes after it began"
    assert run.waiting[1200 // SYNC_SECONDS] == 0
    assert at[2385] == enough(34)
    assert at[2 * HOUR - SYNC_SECONDS] < at[2385]
    assert run.turns() == 1, "up, then down"


def test_a_load_that_comes_and_goes_faster_than_a_pod_starts_is_not_chased() -> None:
    run = under(lambda now: 30 if now % 240 < 120 else 10, stack())
    assert run.turns() == 0


def test_a_load_beyond_the_cap_ends_at_the_cap() -> None:
    run = under(lambda now: 500, stack(most=6))
    assert max(run.pods) == run.pods[-1] == 6


def test_while_pods_start_the_backlog_asks_for_no_more_than_the_pace_allows() -> None:
    """Half an hour of overload during the start: without the pace, the queue would have requested all fifty at once."""
    run = under(lambda now: 120, stack(most=50))
    first = [pods for index, pods in enumerate(run.pods) if index * SYNC_SECONDS < START_SECONDS]
    assert max(first) == 8


@pytest.mark.parametrize(("looks", "pods"), [(1, 2), (2, 8)])
def test_a_queue_that_one_scrape_alone_has_seen_asks_for_no_pod(looks: int, pods: int) -> None:
    autoscaler = Autoscaler(autoscaler_spec(stack()))
    found = [autoscaler.decide(look * SYNC_SECONDS, 2, [12 if 4 <= look < 4 + looks else 2]) for look in range(8)]
    assert max(found) == pods


def test_the_sum_as_a_value_runs_away_where_the_average_does_not() -> None:
    """Why the metric type is not configurable: same load and pace, but the number is read per pod."""
    average = under(lambda now: 34, stack(most=50), seconds=2 * HOUR)
    value = under(lambda now: 34, stack(most=50), seconds=2 * HOUR, asks=by_value)
    assert average.pods[-1] == enough(34)
    assert max(value.pods) == 50


@pytest.mark.parametrize("start", [30, 240, 600])
def test_a_longer_start_costs_waiting_and_no_calm(start: int) -> None:
    """The pace follows the stack's start time; here it is 120 s, and wrong by up to five times."""
    run = under(lambda now: 34 if now > 300 else 4, stack(), seconds=2 * HOUR, start=start)
    assert run.turns() <= 1
    assert run.waiting[-1] == 0
