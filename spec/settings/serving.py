"""The latency, load and options of each model that a stack serves: `triton-eks:models.serving`.

These are goals, not Triton's configuration. `modelctl release` creates each model's config.pbtxt from them. A model without
an entry keeps its own config.pbtxt.
"""

import math
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from spec.problem import Problem
from spec.settings.fields import Evidence, Rate, ResourceName
from spec.settings.kind import between
from spec.settings.language_model import LanguageModel
from spec.settings.rule import Place, rule, warning
from spec.settings.section import Section

_BatchSize = Annotated[int, between(1, 4096, "requests in a batch")]
_Count = Annotated[int, between(1, 1_000_000, "of a resource")]
SHORTEST_SLO_MS = 2
"""The shortest SLO. The network and the server's own work use up a shorter one with any model."""
FINEST_SLO_MS = 10
"""A shorter SLO is measured at least a tenth too late. Triton's histogram has whole milliseconds
(docs/facts/triton-metrics.md#whole-milliseconds)."""
TIMEOUT_PER_SLO = 3
SHORTEST_TIMEOUT_US = 100_000
LONGEST_TIMEOUT_US = 10_000_000
"""Longer only if the SLO itself is longer, because a stopping pod waits for queued requests."""
LONGEST_STREAM_SECONDS = 3000
"""As long as a stream may be. A pod that stops waits for it, and its node with it, which Karpenter ends after an hour."""

# Triton keeps one queue per level and its protocol carries the level of a request as an unsigned number.
_Level = Annotated[int, between(1, 100, "priority levels, 1 first")]


class Priorities(Section):
    """Levels of a model's queue. Level 1 is served first."""

    levels: _Level = Field(description="the number of priority levels")
    default: _Level = Field(description="the level of a request that names none")

    @rule
    def _priorities_are_levels(self, at: Place) -> Iterator[Problem]:
        """Require two levels or more, and one of them as the default."""
        if self.levels < 2:
            yield at.problem("levels", "1 level is no priority; give 2 or more, or remove priorities")
        elif self.default > self.levels:
            yield at.problem("default", f"{self.default} is more than the {self.levels} levels; give 1 to {self.levels}")


class Sequence(Section):
    """Routing of all requests of a sequence to one instance. It replaces dynamic batching."""

    strategy: Literal["direct", "oldest"] = Field(description="direct or oldest")
    max_idle_ms: Annotated[int, between(1, 86_400_000, "ms")] = Field(
        default=60_000, description="a sequence without a request for so many ms has ended"
    )
    max_candidates: Annotated[int, between(1, 100_000, "sequences")] | None = Field(
        default=None,
        description="sequences that the strategy oldest may batch at a time; without it: derived from the batch size; "
        "forbidden with direct, which gives each sequence a place in the batch",
    )

    @rule
    def _candidates_are_of_the_oldest(self, at: Place) -> Iterator[Problem]:
        """Refuse maxCandidates with strategy direct."""
        if self.strategy == "direct" and self.max_candidates is not None:
            yield at.problem("maxCandidates", "strategy 'direct' has no candidates; remove it, or use strategy: oldest")


class RateLimiter(Section):
    """The share that one execution of a model holds of the pod's `triton.rateLimiterResources`.

    This limits executions at a time, not requests per second.
    """

    guide: ClassVar[str] = "docs/facts/triton-server.md#rate-limiter"

    resources: Annotated[dict[ResourceName, _Count], Field(min_length=1)] = Field(
        description="what an execution holds, like {slots: 1}"
    )
    priority: Annotated[int, between(1, 1_000_000, "for a priority, 1 first")] = Field(
        default=1, description="a model of priority 2 gets half the executions of one of priority 1"
    )


class ModelServing(Section):
    """The latency, load and options of one model."""

    guide: ClassVar[str] = "docs/serving.md"

    device: Literal["cpu", "gpu"] = Field(description="cpu or gpu")
    slo_p95_ms: Annotated[int, between(SHORTEST_SLO_MS, 600_000, "ms")] = Field(
        description="the time in ms that 95 % of the requests are answered in, like 50"
    )
    slo_p99_ms: Annotated[int, between(SHORTEST_SLO_MS, 600_000, "ms")] | None = Field(
        default=None,
        description="the time in ms that 99 % of the requests are answered in, like 120; without it: sloP95Ms alone",
    )
    expected_rate: Rate = Field(description="the usual requests per second of the whole fleet, like 40")
    peak_rate: Rate = Field(description="the most requests per second of the whole fleet, like 120")
    instances: Annotated[int, between(1, 64, "instances")] | None = Field(
        default=None,
        description="instances of the model: per GPU with device gpu, per pod with device cpu; without it: two on a GPU "
        "that has the memory, else one (models.release.instances)",
    )
    gpu_memory_mib: Annotated[int, between(1, 1_048_576, "MiB")] | None = Field(
        default=None,
        description="GPU memory of one instance at its largest batch in MiB, of models with device: gpu; without it: "
        "estimated from the size of the model's files (models.release.gpuMemoryMiB), with a warning; required with llm",
    )
    max_batch_size: _BatchSize | None = Field(
        default=None, description="the most requests in a batch; without it: max_batch_size of config.pbtxt"
    )
    max_queue_delay_us: Annotated[int, between(0, 600_000_000, "µs")] | None = Field(
        default=None,
        description="how many µs a request may wait for others to be batched with; without it: derived from the SLO and "
        "the rate",
    )
    queue_timeout_ms: Annotated[int, between(1, 600_000, "ms")] | None = Field(
        default=None,
        description="how many ms a request may wait in the queue before it is rejected, like what the SLO leaves beside a "
        "full batch, so that what can no longer be answered in time makes no other request late; without it: three times "
        "the SLO",
    )
    warmup: tuple[_BatchSize, ...] | None = Field(
        default=None,
        description="the batch sizes that a pod runs before it is ready, [] for none; without it: 1, the largest, and on a "
        "GPU all up to 16",
    )
    priorities: Priorities | None = Field(
        default=None, description="levels of the queue, of which the first is served first; without it: one level"
    )
    sequence: Sequence | None = Field(
        default=None, description="keeps the requests of a sequence on one instance; without it: dynamic batching"
    )
    decoupled: bool = Field(default=False, description="whether the model answers a request with any number of responses")
    longest_stream_seconds: Annotated[int, between(1, LONGEST_STREAM_SECONDS, "seconds")] | None = Field(
        default=None,
        description="the most seconds from a request's first response to its last, like 300, or that a client's stream of "
        "a sequence lasts; pods that stop wait for it; without it: the SLO, which is that of the first response",
    )
    llm: LanguageModel | None = Field(
        default=None,
        description="what is wanted of a language model (vLLM, TensorRT-LLM); without it: the model is none, and scaled "
        "on Triton's own queue and instances",
    )
    response_cache: bool = Field(
        default=False, description="whether equal requests are answered from the pod's cache (triton.responseCacheMiB)"
    )
    rate_limiter: RateLimiter | None = Field(
        default=None,
        description="what an execution holds of the resources of a pod; without it: executions are not limited",
    )
    latency_histogram: bool = Field(
        default=True,
        description="whether its metrics have a histogram of latencies with the SLO as one of the bounds; the alerts and "
        "the dashboard of the SLO need it, and a Triton before 25.01 has none",
    )
    tuned: Evidence | None = Field(
        default=None,
        description="the report of `modelctl tune` that these values are from, which writes it; without it: nothing says",
    )

    @property
    def queue_timeout_us(self) -> int:
        """Return the µs that a request may wait in the queue before it is rejected: by default three times the SLO.

        It is longer than the SLO because one request in twenty may take longer; rejecting those would turn an allowed
        latency into errors. With an exponential tail whose p95 is the SLO, P(wait > 3 SLO) = exp(-3 ln 20) = 1 in 8000. So a
        fleet within its SLO rejects almost no requests, and an overloaded fleet sheds load instead of answering too late.
        The minimum is 100 ms, because a shorter stall (a scheduler, a garbage collector) ends sooner than the retries of a
        whole queue.
        """
        if self.queue_timeout_ms is not None:
            return self.queue_timeout_ms * 1000
        slo_us = self.slo_p95_ms * 1000
        return max(SHORTEST_TIMEOUT_US, min(TIMEOUT_PER_SLO * slo_us, max(slo_us, LONGEST_TIMEOUT_US)))

    @property
    def queue_is_bounded(self) -> bool:
        """Return whether a request is rejected before its waiting time alone exceeds the SLO."""
        return self.queue_timeout_ms is not None and self.queue_timeout_ms < self.slo_p95_ms

    @property
    def longest_request_seconds(self) -> int:
        """Return the maximum seconds of an accepted request: the time in the queue, then the SLO (docs/drain.md).

        For a request with a stream of responses, add the configured duration of the stream.
        """
        return math.ceil((self.queue_timeout_us + self.slo_p95_ms * 1000) / 1_000_000) + (self.longest_stream_seconds or 0)

    @rule
    def _peak_is_the_most(self, at: Place) -> Iterator[Problem]:
        """Require peakRate >= expectedRate."""
        if self.peak_rate < self.expected_rate:
            yield at.problem(
                "peakRate",
                f"{self.peak_rate:g} is less than expectedRate {self.expected_rate:g}; give {self.expected_rate:g} or more",
            )

    @rule
    def _p99_is_no_shorter(self, at: Place) -> Iterator[Problem]:
        """Require sloP99Ms >= sloP95Ms, and the histogram for the sloP99Ms alerts."""
        if self.slo_p99_ms is None:
            return
        if self.slo_p99_ms < self.slo_p95_ms:
            yield at.problem(
                "sloP99Ms",
                f"{self.slo_p99_ms} ms for 99 % are less than the {self.slo_p95_ms} ms for 95 % (sloP95Ms); "
                f"give {self.slo_p95_ms} or more",
            )
        if not self.latency_histogram:
            yield at.problem(
                "sloP99Ms", "nothing measures it without latencyHistogram; remove it, or set latencyHistogram: true"
            )

    @warning
    def _slo_is_coarser_than_the_histogram(self, at: Place) -> Iterator[Problem]:
        """Warn of an SLO that is too short for the whole milliseconds of Triton's histogram."""
        slo = self.slo_p95_ms
        if self.latency_histogram and slo < FINEST_SLO_MS:
            yield at.problem(
                "sloP95Ms",
                f"Triton's histogram cuts every latency to whole ms: a response of up to {slo + 1} ms counts as one within "
                f"{slo} ms, {100 / slo:.0f} % late, in alerts and on the dashboard; watch the latency that clients measure",
            )

    @rule
    def _streams_are_of_models_that_stream(self, at: Place) -> Iterator[Problem]:
        """Refuse longestStreamSeconds for a model with one response per request."""
        if self.longest_stream_seconds is not None and not self.decoupled and self.sequence is None:
            yield at.problem(
                "longestStreamSeconds",
                "is of models that are decoupled or keep sequences, and this one answers a request once; remove it, or "
                "write decoupled: true",
            )

    @rule
    def _language_models_fit_their_gpus(self, at: Place) -> Iterator[Problem]:
        """Require device gpu for a language model, and GPU memory for its weights and all streams' cache."""
        if self.llm is None:
            return
        if self.device != "gpu":
            yield at.problem("llm", "a language model runs on GPUs; write device: gpu, or remove it")
        elif self.gpu_memory_mib is not None and self.gpu_memory_mib < self.llm.needed_mib:
            llm = self.llm
            yield at.problem(
                "gpuMemoryMiB",
                f"{self.gpu_memory_mib} MiB of {llm.gpus} GPU{'s' if llm.gpus > 1 else ''} each do not hold weights of "
                f"{llm.weights_mib} MiB and a cache of {llm.cache_mib} MiB ({llm.concurrent_streams} streams x "
                f"{llm.context_tokens} tokens x {llm.kv_bytes_per_token} bytes); give {llm.needed_mib} or more, or fewer "
                "streams, fewer tokens or more GPUs",
            )

    @rule
    def _delay_is_within_the_slo(self, at: Place) -> Iterator[Problem]:
        """Require a queue delay below the SLO, because a lone request waits for the whole delay
        (docs/facts/triton-configuration.md#queue-delay).
        """
        slo_us = self.slo_p95_ms * 1000
        if self.max_queue_delay_us is not None and self.max_queue_delay_us >= slo_us:
            yield at.problem(
                "maxQueueDelayUs",
                f"a lone request would wait {self.max_queue_delay_us} µs and the SLO is {slo_us} µs; "
                "give less, 0 to 1000 as a rule",
            )

    @rule
    def _gpu_memory_is_of_gpu_models(self, at: Place) -> Iterator[Problem]:
        """Require gpuMemoryMiB for a language model, because no file shows its cache size. Refuse it with device cpu."""
        path, memory = "gpuMemoryMiB", self.gpu_memory_mib
        if self.device == "gpu" and memory is None and self.llm is not None:
            yield at.problem(path, f"is missing; give {self.llm.needed_mib} or more for the weights and the cache of llm")
        if self.device == "cpu" and memory is not None:
            yield at.problem(path, "a model with device cpu takes no GPU memory; remove it, or use device: gpu")

    @rule
    def _batches_are_possible(self, at: Place) -> Iterator[Problem]:
        """Require batch sizes up to maxBatchSize, each once."""
        largest = self.max_batch_size
        sizes = self.warmup or ()
        for index, size in enumerate(sizes):
            path = f"warmup[{index}]"
            if size in sizes[:index]:
                yield at.problem(path, f"{size} is listed twice; list each size once")
            elif largest is not None and size > largest:
                yield at.problem(path, f"{size} is more than maxBatchSize {largest}; give 1 to {largest}")

    @rule
    def _sequences_have_no_dynamic_batcher(self, at: Place) -> Iterator[Problem]:
        """Refuse options of dynamic batching together with sequence."""
        if self.sequence is None:
            return
        for key, wanted in (
            ("maxQueueDelayUs", self.max_queue_delay_us is not None),
            ("queueTimeoutMs", self.queue_timeout_ms is not None),
            ("priorities", self.priorities is not None),
        ):
            if wanted:
                yield at.problem(f"{key}", "is of dynamic batching, which sequence takes the place of; remove one")

    @rule
    def _sequences_outlive_an_answer(self, at: Place) -> Iterator[Problem]:
        """Require an idle time longer than the SLO. A sequence is idle while it has no request in the queue."""
        if self.sequence is not None and self.sequence.max_idle_ms <= self.slo_p95_ms:
            yield at.problem(
                "sequence.maxIdleMs",
                f"{self.sequence.max_idle_ms} ms are no longer than the SLO of {self.slo_p95_ms} ms, so that a sequence "
                f"would end while its client waits for an answer; give more than {self.slo_p95_ms}",
            )

    @rule
    def _responses_can_be_cached(self, at: Place) -> Iterator[Problem]:
        """Refuse the response cache for decoupled models and sequences, because Triton does not load them with it."""
        if not self.response_cache:
            return
        for key, wanted in (("decoupled", self.decoupled), ("sequence", self.sequence is not None)):
            if wanted:
                yield at.problem("responseCache", f"Triton does not cache a model with {key}; remove one")
