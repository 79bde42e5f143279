"""Percentiles, rates and counts of known outcomes."""

import math

import pytest

from modelctl.loadgen import Outcome, Result


def answered(*latencies_ms: float) -> Result:
    outcomes = tuple(Outcome(n * 0.5, n * 0.5, n * 0.5 + ms / 1000, "OK", "1") for n, ms in enumerate(latencies_ms))
    return Result(outcomes, len(latencies_ms) * 0.5)


@pytest.mark.parametrize(
    ("percent", "latency"), [(1, 10), (50, 50), (90, 90), (95, 100), (99, 100), (100, 100), (10, 10), (11, 20)]
)
def test_a_percentile_is_the_latency_of_a_request_that_was_measured(percent: float, latency: float) -> None:
    result = answered(100, 20, 30, 40, 50, 60, 70, 80, 90, 10)

    assert result.percentile_ms(percent) == pytest.approx(latency, abs=1e-9)


def test_a_failed_request_counts_as_infinitely_slow() -> None:
    good = answered(*[10] * 19)
    result = Result((*good.outcomes, Outcome(9.5, 9.5, 9.6, "UNAVAILABLE")), 10)

    assert result.percentile_ms(95) == pytest.approx(10)
    assert result.percentile_ms(96) == math.inf
    assert result.within(50) == 0.95
    assert result.summary().p99_ms is None


def test_throughput_counts_good_answers_until_the_last_one() -> None:
    assert answered(100, 100).throughput == 2
    assert Result((Outcome(0, 0, 4, "OK"), Outcome(0.5, 0.5, 2, "OK")), 1).throughput == 0.5


def test_the_warm_up_is_left_out_of_every_figure() -> None:
    result = answered(900, 900, 10, 20).after(1)

    assert (len(result.outcomes), result.begin, result.end, result.seconds) == (2, 1, 2, 1)
    assert result.percentile_ms(100) == pytest.approx(20)
    assert result.throughput == 2
    with pytest.raises(ValueError, match=r"2 s is not within a run from 1 to 2\.0 s"):
        result.after(2)


def test_the_summary_holds_what_a_file_needs() -> None:
    good = answered(10, 20)
    result = Result((*good.outcomes, Outcome(1, 1.25, None, "UNFINISHED")), 2)
    summary = result.summary()

    assert (summary.due, summary.ok, summary.seconds, summary.offered_rate, summary.throughput) == (3, 2, 2, 1.5, 1)
    assert (summary.p50_ms, summary.p95_ms, summary.max_ms, summary.late_p95_ms) == (20, None, None, 250)
    assert (summary.errors, summary.tags, summary.stopped) == ({"UNFINISHED": 1}, {"1": 2}, False)


def test_a_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="a percentile needs values"):
        Result((), 1).percentile_ms(95)
    with pytest.raises(ValueError, match="a percentile needs values"):
        answered(1).percentile_ms(0)


def test_a_run_without_requests_has_a_summary_without_percentiles() -> None:
    summary = Result((), 1).summary()

    assert (summary.due, summary.offered_rate, summary.p50_ms, summary.max_ms, summary.late_p95_ms) == (0, 0, None, None, 0)
