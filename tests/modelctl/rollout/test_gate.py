"""The canary gate on counters as servers export them."""

from dataclasses import replace
from math import inf, log

import pytest

from modelctl.rollout import likelihood
from modelctl.rollout.gate import Canary, Gate, Tally
from modelctl.rollout.limits import Terms
from modelctl.rollout.metrics import Counters, parse

CANARY = Canary("m", 2, 1, 50.0)
TERMS = Terms(requests=100, seconds=0)
EXPORTED = """\
# TYPE nv_inference_request_success counter
nv_inference_request_success{model="m",version="1"} 7
nv_inference_request_success{gpu_uuid="GPU-1",model="m",version="2"} 100
nv_inference_request_success{model="m",version="2"} 0
# TYPE nv_inference_request_failure counter
nv_inference_request_failure{model="m",reason="OTHER",version="2"} 1
nv_inference_request_failure{model="m",reason="CANCELED",version="2"} 5
nv_inference_request_failure{model="m",reason="REJECTED",version="2"} 2
# TYPE nv_inference_request_duration_us counter
nv_inference_request_duration_us{gpu_uuid="GPU-1",model="m",version="2"} 3000000
# TYPE nv_inference_queue_duration_us counter
nv_inference_queue_duration_us{gpu_uuid="GPU-1",model="m",version="2"} 1000000
# TYPE nv_inference_pending_request_count gauge
nv_inference_pending_request_count{model="m",version="2"} 4
# TYPE nv_inference_first_response_histogram_ms histogram
nv_inference_first_response_histogram_ms_count{model="m",version="2"} 100
nv_inference_first_response_histogram_ms_sum{model="m",version="2"} 3000
nv_inference_first_response_histogram_ms_bucket{model="m",version="2",le="25"} 60
nv_inference_first_response_histogram_ms_bucket{model="m",version="2",le="50"} 95
nv_inference_first_response_histogram_ms_bucket{model="m",version="2",le="100"} 99
nv_inference_first_response_histogram_ms_bucket{model="m",version="2",le="+Inf"} 100
# TYPE nv_cpu_utilization gauge
nv_cpu_utilization 0.5
"""


def _did(requests: float, *, failed: float = 0, canceled: float = 0, late: float | None = 0, ms: float = 10) -> Counters:
    """Return a version's counters. `late`: answers over 50 ms; None: no histogram."""
    success = requests - failed - canceled
    buckets = {} if late is None else {25.0: 0.0, 50.0: success - late, inf: success}
    return Counters(
        success, failed, canceled, duration_us=success * (ms + 5) * 1000, queue_us=success * 5000, buckets=buckets
    )


def _gate(new: Counters, old: Counters, canary: Canary = CANARY, *, watched: bool = False) -> Gate:
    """Return a gate that has seen these counters in twenty looks."""
    gate = Gate([canary], TERMS, watched=watched)
    for look in range(21):
        gate.look({"a": {("m", 2): _part(new, look / 20), ("m", 1): _part(old, look / 20)}})
    return gate


def _part(counters: Counters, share: float) -> Counters:
    buckets = {bound: count * share for bound, count in counters.buckets.items()}
    numbers = {name: value * share for name, value in vars(counters).items() if name != "buckets"}
    return Counters(**numbers, buckets=buckets)


def test_exported_counters_are_read_per_version_and_summed_over_their_series() -> None:
    found = parse(EXPORTED)
    assert found["m", 1] == Counters(success=7)
    buckets = {25.0: 60.0, 50.0: 95.0, 100.0: 99.0, inf: 100.0}
    assert found["m", 2] == Counters(100, 3, 5, 3_000_000, 1_000_000, 4, buckets)
    assert (found["m", 2].finished, found["m", 2].judged) == (108, 103)
    assert (found["m", 2].mean_ms, found["m", 2].mean_in_model_ms) == (30, 20)
    assert [found["m", 2].over(limit) for limit in (50, 51, 500)] == [(5, 100), (1, 100), (0, 100)]


def test_a_right_canary_passes_with_its_figures() -> None:
    gate = _gate(_did(800), _did(16_000, failed=3))
    assert (gate.breaches(), gate.undecided()) == ([], [])
    assert gate.figures() == [
        "m version 2: 0 of 800 requests failed, 0.1% may (version 1: 3 of 16000 (0.0%)); 0 of 800 were given up by their "
        "clients (version 1: 0 of 16000); 0 of 800 took over 50 ms, 5% may (version 1: 0 of 15997); 10.00 ms in the model, "
        "version 1 10.00 ms"
    ]


@pytest.mark.parametrize(
    ("new", "old", "sentence"),
    [
        (_did(300, failed=6), _did(5700), "6 of 300 (2.0%) requests failed, 0.1% may (version 1: 0 of 5700)"),
        (_did(300, canceled=15), _did(5700), "15 of 300 (5.0%) were given up by their clients (version 1: 0 of 5700)"),
        (
            _did(300, late=45),
            _did(5700, late=57),
            "45 of 300 (15.0%) took over 50 ms, 5% may (version 1: 57 of 5700 (1.0%))",
        ),
        (_did(300, ms=13), _did(5700), "13.00 ms in the model, version 1 10.00 ms"),
        (_did(300, ms=60, late=None), _did(5700, ms=60, late=None), None),
    ],
    ids=["fails", "is given up", "is late", "is slower", "has a slow old one"],
)
def test_a_canary_is_refused_for_what_it_does_worse_than_it_may_and_than_the_old_version(
    new: Counters, old: Counters, sentence: str | None
) -> None:
    assert _gate(new, old).breaches() == ([f"m version 2: {sentence}"] if sentence else [])


def test_a_slow_mean_is_a_breach_where_no_histogram_is_exported() -> None:
    canary = Canary("m", 2, 1, 50.0, compared=False)
    gate = _gate(_did(300, ms=50, late=None), _did(5700, late=None), canary)
    assert gate.breaches() == ["m version 2: requests take 55.0 ms on average, sloP95Ms is 50"]


def test_what_befalls_both_versions_is_held_against_neither() -> None:
    assert _gate(_did(300, failed=30, late=100), _did(300, failed=33, late=90)).breaches() == []


def test_a_canary_with_most_of_the_requests_may_take_longer() -> None:
    canary = Canary("m", 2, 1, 50.0, compared=False)
    assert _gate(_did(900, ms=13), _did(300), canary).breaches() == []


def test_a_watched_version_is_judged_by_its_budgets_and_what_the_old_one_did_before() -> None:
    def watched(old: Counters) -> list[str]:
        gate = Gate([CANARY], TERMS, watched=True)
        for failed in (0, 3, 6):
            gate.look({"a": {("m", 2): _did(100 * failed, failed=failed), ("m", 1): old}})
        return gate.breaches()

    assert watched(Counters()) == ["m version 2: 6 of 600 (1.0%) requests failed, 0.1% may"]
    assert watched(_did(9000)) == ["m version 2: 6 of 600 (1.0%) requests failed, 0.1% may (version 1 before: 0 of 9000)"]
    assert watched(_did(9000, failed=90)) == []


@pytest.mark.parametrize(
    ("new", "sentence"),
    [
        (_did(50), " got 50 of 100 requests"),
        (
            _did(700),
            ": 0 of 700 requests failed, 0.1% may (version 1: 0 of 6000); it takes 747 without a failure to tell that no "
            "more than 0.1% fail",
        ),
        (
            _did(1000, late=75),
            ": 75 of 1000 (7.5%) took over 50 ms, 5% may (version 1: 0 of 6000); they do not tell whether more than 5% take "
            "over 50 ms",
        ),
    ],
)
def test_too_few_requests_are_no_judgement(new: Counters, sentence: str) -> None:
    gate = _gate(new, _did(6000))
    assert (gate.breaches(), gate.undecided()) == ([], [f"m version 2{sentence}"])


def test_the_weights_are_logarithms_of_likelihood_ratios() -> None:
    # Two failures of ten; 10 % are allowed and 50 % are bad: 0.5² 0.5⁸ / (0.1² 0.9⁸).
    assert likelihood.above_share(2, 10, 0.1, 5) == pytest.approx(log(0.5**10 / (0.1**2 * 0.9**8)))
    # All three failures are the canary's, which has a quarter of the requests; a bad one has 5/8 of the failures.
    assert likelihood.above_other(3, 100, 0, 300, 5) == pytest.approx(3 * log(0.625 / 0.25))
    assert likelihood.above_other(3, 100, 0, 0, 5) == 0
    ratios = [log(1.2) - 0.1, log(1.2) + 0.1] * 5
    # Single values have a variance of 0.1/9, pairs almost none: the weakest evidence counts.
    assert likelihood.slower(ratios, 0.2) == pytest.approx(5 * log((0.1 / 9 + log(1.2) ** 2) / (0.1 / 9)))
    assert likelihood.slower([ratio - log(1.2) for ratio in ratios], 0.2) == pytest.approx(-likelihood.slower(ratios, 0.2))
    assert likelihood.slower(ratios[:9], 0.2) == 0


def test_windows_that_are_alike_because_they_follow_each_other_tell_less() -> None:
    seen = [0.3, 0.3, 0.3, 0.3, -0.1, -0.1, -0.1, -0.1] * 4
    apart = [0.3, -0.1] * 16
    assert likelihood.slower(apart, 0.1) > 2 * likelihood.slower(seen, 0.1) > 0


def test_a_slower_version_is_not_refused_before_the_least_time_of_a_step() -> None:
    now = 0.0
    gate = Gate([CANARY], replace(TERMS, seconds=60), clock=lambda: now)
    refused = []
    for look in range(40):
        now = 2.0 * look
        gate.look({"a": {("m", 2): _part(_did(800, ms=13), look / 40), ("m", 1): _part(_did(8000), look / 40)}})
        if gate.breaches():
            refused.append(now)
    assert refused[0] == 62, "a minute after the first window, which ended after two seconds"


def test_what_was_counted_before_does_not_count() -> None:
    tally = Tally()
    tally.add("a", {("m", 2): _did(1500, failed=500, ms=900)})
    tally.add("a", {("m", 2): _did(1500, failed=500, ms=900) + _did(10, ms=5)})
    assert tally.of(("m", 2)).finished == 10
    assert tally.of(("m", 2)).duration_us == 100_000


def test_a_pod_that_restarts_adds_to_what_it_did_before() -> None:
    tally = Tally()
    for success in (5, 15, 2, 6):  # 10 before the restart, 4 after it; the 2 are its warm-up
        tally.add("a", {("m", 2): _did(success)})
    assert tally.of(("m", 2)).success == 14
