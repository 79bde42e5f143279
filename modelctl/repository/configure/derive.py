"""Derive values that a stack need not specify from its SLO and its rates.

No value depends on the number of pods, so a growing fleet keeps its release. Each formula is a starting point that meets the
SLO in theory; `modelctl tune` measures better values.
"""

from __future__ import annotations

import math

from spec.settings import ModelServing

US_PER_MS = 1000
US_PER_S = 1_000_000

LONGEST_DELAY_US = 1000
"""A longer delay never helped on a measured server; articles recommend 100 ms.

See docs/facts/triton-configuration.md#queue-delay.
"""

DELAY_SHARE_OF_SLO = 0.05

LARGEST_QUEUE = 4096

MEMORY_PER_FILE_SIZE = 3
MEMORY_BESIDE_FILES_MIB = 1024

_BUCKETS_PER_SLO = (0.1, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 4, 10)


def instances(entry: ModelServing) -> int:
    """Return the instances of an entry. 1 if neither its author nor a release set them."""
    return entry.instances or 1


def queue_delay_us(slo_p95_ms: int, expected_rate: float, max_batch_size: int) -> int:
    """Return how long a request waits for others to join its batch, in µs.

    Waiting helps only if other requests arrive meanwhile. At 30 requests/s the chance of a second one within 1 ms is 3 %. So
    a delay adds 1 ms to nearly every request and batches none (docs/facts/triton-configuration.md#queue-delay). Under load,
    batches form without any delay, from requests that arrive while an instance is busy. So the delay is the time in which a
    whole batch arrives at the fleet, (max_batch_size - 1) / expected_rate. A pod with at least that fraction of the traffic
    then expects one more request. If the result is more than 1000 µs or a twentieth of the SLO, the rate is too low, and the
    delay is 0.
    """
    if max_batch_size <= 1:
        return 0
    filling_us = math.ceil((max_batch_size - 1) / expected_rate * US_PER_S)
    limit_us = min(LONGEST_DELAY_US, int(slo_p95_ms * US_PER_MS * DELAY_SHARE_OF_SLO))
    return filling_us if filling_us <= limit_us else 0


def queue_size(peak_rate: float, timeout_us: int, max_batch_size: int, instances: int, levels: int = 1) -> int:
    """Return the maximum number of requests in one queue of a model in a pod.

    `levels` queues share the total. By Little's law, a queue that is answered within the timeout holds at most rate x
    timeout requests. No pod has to answer more than the fleet's peak rate. A longer queue would only hold requests that time
    out. A pod that is slower than the whole fleet's peak fills the queue only partly. Then the timeout rejects first, which
    Triton counts, unlike rejections by a full queue (docs/facts/triton-metrics.md#refused-requests). The minimum is two
    batches per instance, so one can form while another runs. The maximum is 4096 in total, since requests hold memory.
    """
    answered = math.ceil(peak_rate * timeout_us / US_PER_S)
    smallest = 2 * max(max_batch_size, 1) * instances
    return max(1, min(max(answered, smallest), LARGEST_QUEUE // levels))


def gpu_memory_mib(file_bytes: int) -> int:
    """Return a first estimate of an instance's GPU memory in MiB, from the size of the model's files.

    Weights take their size once, and up to twice, because ONNX Runtime's arena grows by powers of two. Another share is for
    the computation of a batch, which grows with the inputs, not with the weights. Of the measured models, text_detection
    took most in addition to three times its files: 1012 MiB at its largest picture
    (docs/facts/gpu-memory.md#models-of-the-stacks).
    """
    return math.ceil(MEMORY_PER_FILE_SIZE * file_bytes / 1024**2) + MEMORY_BESIDE_FILES_MIB


def candidate_sequences(max_batch_size: int) -> int:
    """Return how many sequences one instance may batch. There are four per place in a batch, because most are idle."""
    return 4 * max(max_batch_size, 1)


def warmup_batch_sizes(max_batch_size: int, *, on_gpu: bool) -> list[int]:
    """Return the batch sizes for warm-up: the smallest and the largest. On a GPU all sizes up to 16 are added.

    On a GPU the first batch of each size is slow. See docs/facts/gpu-memory.md#first-batch-of-a-size.
    """
    largest = max(max_batch_size, 1)
    return sorted({1, largest, *(range(1, min(largest, 16) + 1) if on_gpu else ())})


def histogram_buckets_ms(slo_p95_ms: int, slo_p99_ms: int | None = None) -> list[float]:
    """Return the upper bounds of the latency buckets in ms, dense around the p95 SLO. Both SLOs are bounds.

    So p95 <= SLO is counted and not interpolated, to the whole millisecond: a latency of 5.9 ms counts as 5
    (docs/facts/triton-metrics.md#whole-milliseconds).
    """
    bounds = {round(slo_p95_ms * share, 3) for share in _BUCKETS_PER_SLO}
    return sorted(bounds | ({float(slo_p99_ms)} if slo_p99_ms is not None else set()))
