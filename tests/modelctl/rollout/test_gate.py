"""The SLO gate on counters as servers export them."""

from math import inf

from modelctl.rollout.gate import Canary, Tally, breaches, unjudged
from modelctl.rollout.metrics import Counters, parse

CANARY = Canary("m", 2, 50.0)
EXPORTED = """\
# TYPE nv_inference_request_success counter
nv_inference_request_success{model="m",version="1"} 7
nv_inference_request_success{gpu_uuid="GPU-1",model="m",version="2"} 100
nv_inference_request_success{model="m",version="2"} 0
# TYPE nv_inference_request_failure counter
nv_inference_request_failure{model="m",reason="OTHER",version="2"} 1
nv_inference_request_failure{model="m",reason="REJECTED",version="2"} 2
# TYPE nv_inference_request_duration_us counter
nv_inference_request_duration_us{gpu_uuid="GPU-1",model="m",version="2"} 3000000
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


def _counters(
    success: float = 0, failure: float = 0, mean_ms: float = 0, buckets: dict[float, float] | None = None
) -> Counters:
    return Counters(success, failure, success * mean_ms * 1000, 0.0, buckets or {})


def _tally(*counters: Counters) -> Tally:
    """The tally of pods that had counted nothing when they were first looked at."""
    tally = Tally()
    for number, now in enumerate(counters):
        tally.add(f"pod {number}", {("m", 2): _counters()})
        tally.add(f"pod {number}", {("m", 2): now})
    return tally


def test_exported_counters_are_read_per_version_and_summed_over_their_series() -> None:
    found = parse(EXPORTED)
    assert found["m", 1] == Counters(success=7)
    assert found["m", 2] == Counters(100, 3, 3_000_000, 4, {25.0: 60, 50.0: 95, 100.0: 99, inf: 100})
    assert found["m", 2].quantile_ms(0.95) == 50.0


def test_a_canary_within_its_slo_passes() -> None:
    tally = _tally(_counters(60, mean_ms=49), _counters(40, 1, mean_ms=51))
    assert breaches([CANARY], tally, 100) == []
    assert unjudged([CANARY], tally, 100) == []


def test_too_many_failures_are_a_breach_also_before_there_are_enough_requests() -> None:
    assert breaches([CANARY], _tally(_counters(8, 2)), 100) == ["m version 2: 2 of 10 requests failed (20.0%), 1% may"]
    assert breaches([CANARY], _tally(_counters(9, 1)), 100) == []


def test_a_slow_mean_is_a_breach_where_no_histogram_is_exported() -> None:
    tally = _tally(_counters(50, mean_ms=40), _counters(50, mean_ms=70))
    assert breaches([CANARY], tally, 100) == ["m version 2: requests take 55.0 ms on average, sloP95Ms is 50"]


def test_a_slow_p95_is_a_breach_though_the_mean_is_not() -> None:
    histogram = {50.0: 94.0, 100.0: 99.0, inf: 100.0}
    assert breaches([CANARY], _tally(_counters(100, mean_ms=20, buckets=histogram)), 100) == [
        "m version 2: p95 is up to 100 ms, sloP95Ms is 50"
    ]


def test_too_few_requests_are_no_judgement() -> None:
    tally = _tally(_counters(50, mean_ms=500))
    assert breaches([CANARY], tally, 100) == []
    assert unjudged([CANARY], tally, 100) == ["m version 2 got 50 of 100 requests"]


def test_what_was_counted_before_does_not_count() -> None:
    tally = Tally()
    tally.add("a", {("m", 2): _counters(1000, 500, mean_ms=900)})
    tally.add("a", {("m", 2): _counters(1000, 500, mean_ms=900) + _counters(10, mean_ms=5)})
    assert tally.of(("m", 2)).finished == 10
    assert tally.of(("m", 2)).duration_us == 50_000


def test_a_pod_that_restarts_adds_to_what_it_did_before() -> None:
    tally = Tally()
    for success in (5, 15, 2, 6):  # 10 before the restart, 4 after it; the 2 are its warm-up
        tally.add("a", {("m", 2): _counters(success)})
    assert tally.of(("m", 2)).success == 14
