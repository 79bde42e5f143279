"""Values that a stack need not write, because they follow from its SLO and its rates.

None depends on the number of pods: a fleet that grows keeps its release. Each formula is a starting point that holds the
SLO on paper; `modelctl tune` measures better ones.
"""

from __future__ import annotations

import math

from spec.settings import ModelServing

US_PER_MS = 1000
US_PER_S = 1_000_000

LONGEST_DELAY_US = 1000
"""More has never paid on a measured server; 100 ms is what articles give.

See docs/facts/triton-configuration.md#queue-delay.
"""

DELAY_SHARE_OF_SLO = 0.05

LARGEST_QUEUE = 4096

MEMORY_PER_FILE_SIZE = 3
MEMORY_BESIDE_FILES_MIB = 1024

_BUCKETS_PER_SLO = (0.1, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 4, 10)


def instances(entry: ModelServing) -> int:
    """Return the instances of an entry; one if neither a person nor a release has decided."""
    return entry.instances or 1


def queue_delay_us(slo_p95_ms: int, expected_rate: float, max_batch_size: int) -> int:
    """Return how long a request waits for others to join its batch, in µs.

    Waiting pays only when others come meanwhile: at 30 requests/s the chance of a second one within 1 ms is 3 %, so a
    delay adds 1 ms to nearly every request and batches nothing (docs/facts/triton-configuration.md#queue-delay). Under
    load batches form without any delay, from what arrives while an instance is busy. So the delay is the time in which
    a whole batch arrives at the fleet, (max_batch_size - 1) / expected_rate: a pod with at least that fraction of the
    traffic then expects one more request. When that is more than 1000 µs or a twentieth of the SLO, the rate is too low
    for any, and the delay is 0.
    """
    if max_batch_size <= 1:
        return 0
    filling_us = math.ceil((max_batch_size - 1) / expected_rate * US_PER_S)
    limit_us = min(LONGEST_DELAY_US, int(slo_p95_ms * US_PER_MS * DELAY_SHARE_OF_SLO))
    return filling_us if filling_us <= limit_us else 0


def queue_size(peak_rate: float, timeout_us: int, max_batch_size: int, instances: int, levels: int = 1) -> int:
    """Return the most requests that one queue of a model holds in a pod; `levels` queues share what is allowed in all.

    Little's law: a queue that is answered within the timeout holds at most rate x timeout requests, and no pod has to
    answer more than the fleet's peak rate. A longer queue could only hold requests that will time out. A pod that is
    slower than the whole fleet's peak fills it only partly: there the timeout rejects first, which Triton counts,
    unlike a full queue (docs/facts/triton-metrics.md#refused-requests). Never less than two batches per instance, so
    that one can form while another runs; never more than 4096 in all, since requests hold memory.
    """
    answered = math.ceil(peak_rate * timeout_us / US_PER_S)
    smallest = 2 * max(max_batch_size, 1) * instances
    return max(1, min(max(answered, smallest), LARGEST_QUEUE // levels))


def gpu_memory_mib(file_bytes: int) -> int:
    """Return a first estimate of the GPU memory of an instance of a model with files of this size.

    Weights take their size once, and up to twice, because ONNX Runtime's arena grows by powers of two; another share is for
    what a batch computes. That grows with the inputs, not with the weights: of the measured models, text_detection took most
    beside three times its files, 1012 MiB at its largest picture (docs/facts/gpu-memory.md#models-of-the-stacks).
    """
    return math.ceil(MEMORY_PER_FILE_SIZE * file_bytes / 1024**2) + MEMORY_BESIDE_FILES_MIB


def candidate_sequences(max_batch_size: int) -> int:
    """Return the sequences that one instance may batch at a time: four for each place in a batch; most of them think."""
    return 4 * max(max_batch_size, 1)


def warmup_batch_sizes(max_batch_size: int, *, on_gpu: bool) -> list[int]:
    """Return the smallest and the largest batch, and on a GPU, where the first of each size is slow, all up to 16 too.

    See docs/facts/gpu-memory.md#first-batch-of-a-size.
    """
    largest = max(max_batch_size, 1)
    return sorted({1, largest, *(range(1, min(largest, 16) + 1) if on_gpu else ())})


def histogram_buckets_ms(slo_p95_ms: int, slo_p99_ms: int | None = None) -> list[float]:
    """Return the upper bounds of latency buckets, close around the SLO of p95, which is one of them, as that of p99 is.

    Whether p95 <= SLO is then counted and not interpolated, to the whole millisecond: a latency of 5.9 ms is one of 5
    (docs/facts/triton-metrics.md#whole-milliseconds).
    """
    bounds = {round(slo_p95_ms * share, 3) for share in _BUCKETS_PER_SLO}
    return sorted(bounds | ({float(slo_p99_ms)} if slo_p99_ms is not None else set()))
