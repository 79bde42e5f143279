"""What a stack says of each model that it serves: `models.serving`.

These are wants, not Triton's configuration: `modelctl release` makes each model's config.pbtxt of them. A model without
an entry is served by its own config.pbtxt as it is.
"""

import math
from typing import Annotated, Literal

from pydantic import Field

from spec.settings.fields import Name, Rate, ResourceName, between
from spec.settings.section import Section

_BatchSize = Annotated[int, between(1, 4096, "requests in a batch")]
_Count = Annotated[int, between(1, 1_000_000, "of a resource")]
TIMEOUT_PER_SLO = 3
SHORTEST_TIMEOUT_US = 100_000
LONGEST_TIMEOUT_US = 10_000_000
"""Beyond this only where the SLO itself is longer: a queued request is waited for when a pod stops."""

# Triton keeps one queue per level and its protocol carries the level of a request as an unsigned number.
_Level = Annotated[int, between(1, 100, "priority levels, 1 first")]


class Priorities(Section):
    """Levels of a model's queue. Level 1 is served first; `default` is the level of a request that names none."""

    levels: _Level = Field(description="the number of priority levels")
    default: _Level = Field(description="the level of a request that names none")


class Sequence(Section):
    """Requests of one sequence go to one instance; this takes the place of dynamic batching.

    `max_idle_ms`: a sequence without a request for so long has ended. `max_candidates`: sequences that the strategy
    `oldest` may batch at a time, None: derived from the batch size; the strategy `direct` gives each sequence a place in
    the batch and takes none.
    """

    strategy: Literal["direct", "oldest"] = Field(description="direct or oldest")
    max_idle_ms: Annotated[int, between(1, 86_400_000, "ms")] = 60_000
    max_candidates: Annotated[int, between(1, 100_000, "sequences")] | None = None


class RateLimiter(Section):
    """What one execution of a model holds of the pod's `triton.rateLimiterResources`.

    `priority`: a model of priority 2 gets half the executions of one of priority 1 (Triton's rate limiter). This
    limits executions at a time, not requests per second (docs/facts/triton-server.md#rate-limiter).
    """

    resources: Annotated[dict[ResourceName, _Count], Field(min_length=1)] = Field(
        description="what an execution holds, like {slots: 1}"
    )
    priority: Annotated[int, between(1, 1_000_000, "for a priority, 1 first")] = 1


class ModelServing(Section):
    """What a stack wants of one model.

    `slo_p95_ms`: 95 of 100 requests are answered in that time, their time in the queue included. `expected_rate` and
    `peak_rate` are requests per second over all pods. `instances` are per GPU with device `gpu`, per pod with `cpu`.
    `gpu_memory_mib` is the GPU memory of one instance at its largest batch. None means: `max_batch_size` of
    config.pbtxt; `max_queue_delay_us` derived from the SLO and the rate; `warmup` with batches of 1 and of the largest
    size (an empty one: no warm-up). `tuned` names the evidence of `modelctl tune`.
    """

    device: Literal["cpu", "gpu"] = Field(description="cpu or gpu")
    slo_p95_ms: Annotated[int, between(1, 600_000, "ms")] = Field(
        description="the time in ms that 95 % of the requests are answered in, like 50"
    )
    expected_rate: Rate = Field(description="the usual requests per second of the whole fleet, like 40")
    peak_rate: Rate = Field(description="the most requests per second of the whole fleet, like 120")
    instances: Annotated[int, between(1, 64, "instances")] = 1
    gpu_memory_mib: Annotated[int, between(1, 1_048_576, "MiB")] | None = None
    max_batch_size: _BatchSize | None = None
    max_queue_delay_us: Annotated[int, between(0, 600_000_000, "µs")] | None = None
    preferred_batch_sizes: tuple[_BatchSize, ...] = ()
    warmup: tuple[_BatchSize, ...] | None = None
    priorities: Priorities | None = None
    sequence: Sequence | None = None
    decoupled: bool = False
    response_cache: bool = False
    rate_limiter: RateLimiter | None = None
    tensorrt_fp16: bool = False
    cuda_graphs: bool = False
    latency_histogram: bool = True
    tuned: Name | None = None

    @property
    def queue_timeout_us(self) -> int:
        """How long a request may wait in the queue before it is rejected, in µs: three times the SLO.

        Not the SLO itself: one request in twenty may take longer, and rejecting those would turn a latency that is promised
        into errors. With an exponential tail whose p95 is the SLO, P(wait > 3 SLO) = exp(-3 ln 20) = 1 in 8000, so a fleet
        that holds its SLO rejects next to nothing, and one that does not sheds load instead of answering too late. At least
        100 ms: a stall shorter than that (a scheduler, a garbage collector) ends sooner than the retries of a whole queue.
        """
        slo_us = self.slo_p95_ms * 1000
        return max(SHORTEST_TIMEOUT_US, min(TIMEOUT_PER_SLO * slo_us, max(slo_us, LONGEST_TIMEOUT_US)))

    @property
    def longest_request_seconds(self) -> int:
        """The longest that an accepted request takes, rounded up: its time in the queue, then the SLO (docs/drain.md)."""
        return math.ceil((self.queue_timeout_us + self.slo_p95_ms * 1000) / 1_000_000)
