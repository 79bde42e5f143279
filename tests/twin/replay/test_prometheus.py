"""Rates and recorded numbers, compared with Prometheus's documentation and source."""

import pytest

from spec.prometheus.recording import ASKED, BUSY, NEEDED, PENDING, recording_group
from tests.spec.stack_config import settings
from tests.spec.test_stack_mistakes_autoscaling import SCALED
from twin.replay.prometheus import Sample, Target, rate


@pytest.mark.parametrize(
    ("times", "values", "now", "expected"),
    [
        pytest.param([10, 25, 40, 55], [100, 130, 160, 190], 60, 2.0, id="steady: the whole window is filled in"),
        pytest.param([40, 55], [0, 30], 60, 30 * 20 / 15 / 60, id="new: not to before it was 0"),
        pytest.param([40, 55], [300, 330], 60, 30 * (15 + 7.5 + 5) / 15 / 60, id="half a scrape to the left"),
        pytest.param([5, 20], [300, 330], 60, 30 * (15 + 5 + 7.5) / 15 / 60, id="ended: half a scrape to the right"),
        pytest.param([10, 25, 40, 55], [100, 130, 10, 40], 60, (30 + 10 + 30) / 45, id="a counter that began anew"),
        pytest.param([10, 55], [5, 5], 60, 0.0, id="nothing happened"),
    ],
)
def test_rate(times: list[float], values: list[float], now: float, expected: float) -> None:
    assert rate(times, values, now, 60) == pytest.approx(expected)


def target(*samples: tuple[float, float, float, float]) -> Target:
    """Each sample is `at, successes, executions, seconds` of one scrape."""
    made = Target()
    made.samples.extend(Sample(*sample, pending=3 + place) for place, sample in enumerate(samples))
    return made


def test_busy_instances_are_executions_times_the_time_of_one() -> None:
    """Ten requests/s in batches of four that take 0.2 s: each request is charged 0.2 s."""
    loaded = target(*((at, 10 * at, 2.5 * at, 10 * at * 0.2) for at in range(90, 120, 5)))
    assert loaded.busy(116) == loaded.needed(116) == pytest.approx(2.5 * 0.2)
    assert target((100, 7, 7, 1), (105, 7, 7, 1)).needed(106) == 0
    assert target((105, 7, 7, 1)).needed(106) is None, "a rate takes two samples"
    assert loaded.needed(143) is None, "within the window there is one"


def test_instances_that_rejected_requests_would_have_kept_busy_are_needed() -> None:
    """Twice the requests that one always busy instance answers."""
    loaded = Target()
    loaded.samples.extend(Sample(at, 5 * at, 5 * at, at, pending=3, rejected=5 * at) for at in range(90, 120, 5))
    assert (loaded.busy(116), loaded.needed(116)) == pytest.approx((1, 2))
    assert loaded.asked(116) == pytest.approx(10)


def test_requests_that_are_asked_are_those_of_a_second() -> None:
    assert target(*((at, 10 * at, at, 1) for at in range(90, 120, 5))).asked(116) == pytest.approx(10)
    assert target((105, 7, 7, 1)).asked(106) is None


def test_what_waits_is_the_mean_of_half_a_minute() -> None:
    assert target((85, 1, 1, 1), (105, 1, 1, 1), (110, 1, 1, 1)).pending(116) == (4 + 5) / 2


def test_a_pod_that_is_gone_keeps_its_rate_and_its_queue_for_half_a_minute() -> None:
    """`avg_over_time` covers its window's samples, like `rate`; only an instant value would end at once."""
    gone = target((100, 10, 10, 1), (105, 20, 20, 2))
    assert (gone.pending(106), gone.pending(129), gone.pending(130)) == (3.5, 3.5, 4)
    assert gone.pending(135) is None
    assert gone.needed(129) is not None
    assert gone.needed(130) is None


def test_the_recorded_rules_are_those_that_are_computed_here() -> None:
    """A change of a rule requires a change of `Target`."""
    rules = {rule["record"]: rule["expr"] for rule in recording_group(settings(SCALED))["rules"]}
    by, of = "sum by (namespace, pod, model)", '{namespace="triton"}'

    def rate_of(metric: str, window: str = "30s", labels: str = of) -> str:
        return f"{by} (rate({metric}{labels}[{window}]))"

    def busy(window: str) -> str:
        successes = rate_of("nv_inference_request_success", window)
        executed = f"{successes}\n    - {rate_of('nv_cache_num_hits_per_model', window)}\n  or {successes}"
        return (
            f"{rate_of('nv_inference_compute_infer_duration_us', window)} / 1e6\n"
            f"* {rate_of('nv_inference_exec_count', window)}\n/ (({executed}) > 0)"
        )

    successes, executions = rate_of("nv_inference_request_success"), rate_of("nv_inference_exec_count")
    rejected = rate_of("nv_inference_request_failure", labels='{namespace="triton",reason="REJECTED"}')
    asked = f"{successes}\n    + {rejected}\n  or {successes}"
    assert rules[ASKED] == asked
    assert rules[PENDING] == f"{by} (nv_inference_pending_request_count{of})"
    assert rules[BUSY] == f"{busy('1m')}\nor 0 * {rate_of('nv_inference_exec_count', '1m')}"
    assert rules[NEEDED] == f"{busy('30s')}\n* ({asked})\n/ ({successes} > 0)\nor 0 * {executions}"
