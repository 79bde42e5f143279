"""Values derived from the SLO and the rates if a stack does not set them."""

import pytest

from modelctl.repository.configure import derive


@pytest.mark.parametrize(
    ("slo_ms", "rate", "largest", "delay_us"),
    [
        (50, 40, 8, 0),  # a batch takes 175 ms to arrive
        (50, 6999, 8, 0),  # 1000.1 µs
        (50, 7000, 8, 1000),
        (50, 70_000, 8, 100),
        (50, 1_000_000, 1, 0),  # no other request to wait for
        (10, 7000, 8, 0),  # 1000 µs are a tenth of the SLO
        (10, 14_000, 8, 500),
        (20, 7000, 8, 1000),
    ],
)
def test_a_request_waits_only_where_a_batch_arrives_in_time(slo_ms: int, rate: float, largest: int, delay_us: int) -> None:
    assert derive.queue_delay_us(slo_ms, rate, largest) == delay_us


@pytest.mark.parametrize(
    ("peak", "timeout_us", "largest", "instances", "levels", "size"),
    [
        (1000, 150_000, 8, 1, 1, 150),  # the fleet's peak within the timeout
        (120, 150_000, 8, 1, 1, 18),
        (1, 150_000, 8, 2, 1, 32),  # two batches per instance
        (0.001, 100_000, 0, 1, 1, 2),  # a model without batching
        (1_000_000, 10_000_000, 8, 1, 1, 4096),
        (1_000_000, 10_000_000, 8, 1, 3, 1365),  # all levels together stay within it
        (1, 100_000, 4096, 64, 1, 4096),
    ],
)
def test_a_queue_holds_what_is_answered_in_time(
    peak: float, timeout_us: int, largest: int, instances: int, levels: int, size: int
) -> None:
    assert derive.queue_size(peak, timeout_us, largest, instances, levels) == size


def test_the_smallest_and_the_largest_batch_are_warmed_up_and_on_a_gpu_those_between() -> None:
    assert [derive.warmup_batch_sizes(largest, on_gpu=False) for largest in (0, 1, 8)] == [[1], [1], [1, 8]]
    assert [derive.warmup_batch_sizes(largest, on_gpu=True) for largest in (0, 1, 4)] == [[1], [1], [1, 2, 3, 4]]
    assert derive.warmup_batch_sizes(64, on_gpu=True) == [*range(1, 17), 64]


def test_the_slo_is_a_bound_of_a_latency_bucket() -> None:
    assert derive.histogram_buckets_ms(50) == [5, 12.5, 25, 37.5, 50, 62.5, 75, 100, 200, 500]
    assert derive.histogram_buckets_ms(50, 120) == [5, 12.5, 25, 37.5, 50, 62.5, 75, 100, 120, 200, 500]
    assert derive.histogram_buckets_ms(50, 100) == derive.histogram_buckets_ms(50)
    assert derive.histogram_buckets_ms(3) == [0.3, 0.75, 1.5, 2.25, 3, 3.75, 4.5, 6, 12, 30]


@pytest.mark.parametrize(("rate", "delay"), [(999, 0), (1000, 1000)])
def test_a_delay_is_derived_from_a_thousand_requests_a_second_on(rate: int, delay: int) -> None:
    """spec/settings/relations/triton.py relies on this bound (_LOWEST_RATE_WITH_DELAY)."""
    assert derive.queue_delay_us(600_000, rate, 2) == delay
