"""A whole fleet under a trace: from settings to figures."""

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest

from spec.settings import Settings
from stackctl.cost import prices
from tests.spec.stack_config import settings
from tests.spec.test_fleets import THREE
from tests.spec.test_stack_mistakes_autoscaling import CLASSIFY, HPA, SCALED, scaling
from tests.spec.test_stack_mistakes_worker import BY_HAND
from twin.replay import samples
from twin.replay.outcome import Outcome, document
from twin.replay.plan import NotReplayable, Plan, plans
from twin.replay.simulation import check, simulate
from twin.replay.traces import EVERY, Outage, Trace, TraceUnusable

POD = {**CLASSIFY, "maxBatchSize": 4, "sloP95Ms": 400, "expectedRate": 20, "peakRate": 100}
"""20 requests/s a pod, by the assumed service times: batches of 4 in half of the SLO."""
NODES = {"nodes.autoscaler": "cluster-autoscaler", "gpu.pools[0].min": 1, "gpu.pools[0].max": 12}


def stack(base: dict[str, Any] = SCALED, **bounds: Any) -> Settings:
    given = scaling(**{"minReplicas": 1, "maxReplicas": 10, "startSeconds": 120, **bounds})
    return settings({**base, **NODES, "models.serving": {"classify": POD}, "autoscaling": given})


def plan_of(read: Settings) -> Plan:
    (plan,) = plans(read, prices.load(read.region), {}, {})
    return plan


def replayed(read: Settings, trace: Trace) -> Outcome:
    return simulate(plan_of(read), trace, everybody={"classify": 20})


@functools.cache
def sample(autoscaler: str, name: str) -> Outcome:
    return replayed(stack(SCALED if autoscaler == "keda" else HPA), samples.sample(name, {"classify": 100}))


def constant(rate: float, seconds: int = 3600) -> Trace:
    return Trace("constant", {EVERY: np.full(seconds, rate)})


@pytest.mark.parametrize("autoscaler", ["keda", "hpa"])
def test_pods_follow_steps_up_and_down(autoscaler: str) -> None:
    outcome = sample(autoscaler, "steps")
    assert outcome.most_pods >= 5, "100 requests/s take five pods"
    # 25/s of 0.1 s keep about 2.2 instances busy: of 0.7 each, or of 0.8 with a spare one. KEDA acts on one sample that is
    # slightly higher by chance, the other rule on two.
    assert outcome.wanted[0] == (0, {"keda": 5, "hpa": 4}[autoscaler])
    assert outcome.wanted[-1][1] < outcome.most_pods
    assert outcome.turns <= 2
    assert outcome.missed_share < 0.01
    assert outcome.gpu_hours >= outcome.pod_seconds / 3600, "a node for each pod, at least"


def test_the_same_trace_comes_to_the_same() -> None:
    assert document(sample("keda", "steps")) == document(replayed(stack(), samples.sample("steps", {"classify": 100})))


def test_what_is_enough_stays() -> None:
    outcome = replayed(stack(sparePods=0), constant(6))
    assert outcome.wanted == [(0, 1)] and outcome.shortages == []
    assert outcome.requests == pytest.approx(6 * 3600, rel=0.02)
    assert outcome.missed_share < 0.001
    assert (outcome.node_hours, outcome.gpu_hours, outcome.usd) == (1, 1, pytest.approx(1.006))


def test_a_spare_pod_is_there_before_it_is_needed() -> None:
    without, spare = (replayed(stack(sparePods=pods), constant(6)) for pods in (0, 1))
    assert (without.wanted, spare.wanted) == ([(0, 1)], [(0, 2)])


def test_a_longer_start_costs_misses_and_a_warm_pod_saves_some() -> None:
    """A flash crowd in an hour; a warm pod's node exists, and is paid, all the time."""
    crowd = samples.sample("flash-crowd", {"classify": 60})
    quick, slow = (replayed(stack(startSeconds=start), crowd) for start in (60, 600))
    assert quick.missed_share < slow.missed_share
    assert quick.longest_shortage < slow.longest_shortage
    cold, warm = (replayed(stack(minReplicas=2, warmPods=pods), crowd) for pods in (0, 2))
    assert warm.missed_share < cold.missed_share
    assert warm.node_hours > cold.node_hours


def test_a_lower_cap_costs_what_it_leaves_unanswered() -> None:
    low, high = (replayed(stack(maxReplicas=most), samples.sample("steps", {"classify": 100})) for most in (2, 10))
    assert low.most_pods == 2
    assert low.rejected > 0.2 * low.requests
    assert low.missed_share > 0.2 > high.missed_share
    assert low.gpu_hours < high.gpu_hours


def test_a_slow_pod_is_late_while_it_is_slow_alone() -> None:
    outcome = sample("keda", "slow-pod")
    missed = [moment.missed for moment in outcome.moments if not 600 <= moment.at <= 2400]
    assert max(missed) < 0.02 < max(moment.missed for moment in outcome.moments)


def test_while_prometheus_is_away_the_fallback_holds_the_pods() -> None:
    outcome = replayed(stack(sparePods=0), dataclasses.replace(constant(6), outage=Outage(600, 1800)))
    assert (outcome.most_pods, outcome.wanted) == (1, [(0, 1)])


def test_nobody_sees_a_rise_while_prometheus_is_away() -> None:
    for autoscaler in (SCALED, HPA):
        outcome = replayed(stack(autoscaler), samples.sample("prometheus-away", {"classify": 100}))
        changes = [at for at, _ in outcome.wanted[1:]]
        assert not [at for at in changes if 630 <= at < 1800]
        assert 1800 <= min(at for at in changes if at >= 630) <= 1845
        assert outcome.most_pods >= 5


def test_a_stack_without_an_autoscaler_keeps_its_pods() -> None:
    fixed = settings({"models.serving": {"classify": POD}, "models.release": None, "triton.replicas": 2})
    outcome = replayed(fixed, constant(100, seconds=600))
    assert (outcome.wanted, outcome.most_pods) == ([(0, 2)], 2)
    assert outcome.shortages == [600]
    assert outcome.rejected == pytest.approx(600 * 60, rel=0.05)


def test_several_models_share_what_names_none_by_what_is_expected_of_them() -> None:
    serving = {"classify": POD, "other": {**POD, "expectedRate": 60}}
    read = settings({**SCALED, **NODES, "models.serving": serving, "autoscaling": scaling(maxReplicas=10)})
    only = replayed_of(read, constant(8, 60), {"classify": 20, "other": 60})
    assert only.requests == pytest.approx(8 * 60, rel=0.2)
    own = Trace("own", {"other": np.full(60, 8.0)})
    assert replayed_of(read, own, {"classify": 20, "other": 60}).requests == pytest.approx(8 * 60, rel=0.2)


def replayed_of(read: Settings, trace: Trace, everybody: dict[str, float]) -> Outcome:
    return simulate(plan_of(read), trace, everybody=everybody)


def test_a_trace_of_another_stack_is_refused() -> None:
    with pytest.raises(TraceUnusable, match=r"prod does not serve detect; it serves classify"):
        check(Trace("t.csv", {"detect": np.ones(3)}), {"classify": 20}, "prod")


def test_what_cannot_be_followed_is_refused() -> None:
    read = stack()
    with pytest.raises(NotReplayable, match=r"--batch-ms detect: .* models\.serving has classify"):
        plans(read, prices.load(read.region), {}, {"detect": (1, 2)})
    to_zero = settings({**SCALED, "worker": BY_HAND, "autoscaling": scaling(minReplicas=0)})
    with pytest.raises(
        NotReplayable, match=r"triton: with autoscaling.minReplicas 0 what finds no pod starts the first one"
    ):
        plans(to_zero, prices.load(to_zero.region), {}, {})
    empty = settings({"models.serving": {}})
    with pytest.raises(NotReplayable, match=r"models\.serving is empty"):
        plans(empty, prices.load(empty.region), {}, {})


def test_each_fleet_has_its_own_pods_and_its_part_of_the_requests() -> None:
    read = settings(THREE)
    found = {plan.fleet: plan for plan in plans(read, prices.load(read.region), {}, {})}
    assert {fleet: [(model.name, model.share) for model in plan.models] for fleet, plan in found.items()} == {
        "triton-cpu": [("tokenize", 0.5)],
        "triton-g5": [("embed", 1), ("tokenize", 0.5)],
        "triton-p4d": [("rank", 1)],
    }
    sent = Trace("t", {"tokenize": np.full(120, 10.0)})
    outcomes = {fleet: simulate(plan, sent, everybody={}) for fleet, plan in found.items()}
    assert {fleet: round(outcome.requests / 120) for fleet, outcome in outcomes.items()} == {
        "triton-cpu": 5,
        "triton-g5": 5,
        "triton-p4d": 0,
    }
    assert outcomes["triton-cpu"].gpu_hours == 0
    assert outcomes["triton-p4d"].gpu_hours == pytest.approx(8 * 120 / 3600), "two pods with four GPUs each on one node"
