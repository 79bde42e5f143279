"""Read the counters of one Triton per model and version from its Prometheus text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from prometheus_client.parser import text_string_to_metric_families

_SUCCESS = "nv_inference_request_success"
_FAILURE = "nv_inference_request_failure"
_DURATION = "nv_inference_request_duration_us"
_QUEUE = "nv_inference_queue_duration_us"
_PENDING = "nv_inference_pending_request_count"
_HISTOGRAM = "nv_inference_first_response_histogram_ms"
_CANCELED = "CANCELED"

VersionOf = tuple[str, int]
"""A model and one of its versions."""


@dataclass
class Counters:
    """Counters since the version was loaded: requests by outcome, their total duration, and a histogram in ms.

    `canceled`: requests that clients canceled, passed deadlines included; they are no failures. `queue_us`: the part of the
    duration in the queue. `pending`: requests that wait now. `buckets`: the number of requests by upper bound in ms; empty
    if the server exports no histogram (before 26.01).
    """

    success: float = 0.0
    failure: float = 0.0
    canceled: float = 0.0
    duration_us: float = 0.0
    queue_us: float = 0.0
    pending: float = 0.0
    buckets: dict[float, float] = field(default_factory=dict)

    @property
    def finished(self) -> float:
        return self.success + self.failure + self.canceled

    @property
    def judged(self) -> float:
        """Return the number of requests that the server answered or failed. A canceled request tells neither."""
        return self.success + self.failure

    @property
    def mean_ms(self) -> float:
        """Return the mean time of an answered request in ms; 0 without any."""
        return self.duration_us / 1000 / self.success if self.success else 0.0

    @property
    def mean_in_model_ms(self) -> float:
        """Return the mean time of an answered request outside the queue in ms. 0 without any."""
        return (self.duration_us - self.queue_us) / 1000 / self.success if self.success else 0.0

    def since(self, earlier: Counters) -> Counters:
        """Return the increase after `earlier`, a reading of the same server."""
        buckets = {bound: count - earlier.buckets.get(bound, 0.0) for bound, count in self.buckets.items()}
        return Counters(
            self.success - earlier.success,
            self.failure - earlier.failure,
            self.canceled - earlier.canceled,
            self.duration_us - earlier.duration_us,
            self.queue_us - earlier.queue_us,
            self.pending,
            buckets,
        )

    def __add__(self, other: Counters) -> Counters:
        bounds = {*self.buckets, *other.buckets}
        return Counters(
            self.success + other.success,
            self.failure + other.failure,
            self.canceled + other.canceled,
            self.duration_us + other.duration_us,
            self.queue_us + other.queue_us,
            self.pending + other.pending,
            {bound: self.buckets.get(bound, 0.0) + other.buckets.get(bound, 0.0) for bound in bounds},
        )

    def over(self, limit_ms: float) -> tuple[float, float] | None:
        """Return how many answers took longer than the limit, and how many there were.

        The limit is rounded up to the next bound of the histogram; a generated config has a bound at the SLO. None without a
        histogram or without an answer.
        """
        total = self.buckets.get(inf, 0.0)
        if not total:
            return None
        within = next(count for bound, count in sorted(self.buckets.items()) if bound >= limit_ms)
        return total - within, total


def parse(text: str) -> dict[VersionOf, Counters]:
    """Return the counters by model and version.

    On GPUs a metric has two series per version, which are summed: docs/facts/triton-metrics.md#pairs-on-gpus.
    """
    found: dict[VersionOf, Counters] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            version = _version(sample.labels)
            if version is None:
                continue
            counters = found.setdefault(version, Counters())
            name = sample.name.removesuffix("_total")
            if name == _SUCCESS:
                counters.success += sample.value
            elif name == _FAILURE:
                canceled = sample.labels.get("reason") == _CANCELED
                counters.canceled += sample.value if canceled else 0.0
                counters.failure += 0.0 if canceled else sample.value
            elif name == _DURATION:
                counters.duration_us += sample.value
            elif name == _QUEUE:
                counters.queue_us += sample.value
            elif name == _PENDING:
                counters.pending += sample.value
            elif name == f"{_HISTOGRAM}_bucket":
                bound = float(sample.labels["le"])
                counters.buckets[bound] = counters.buckets.get(bound, 0.0) + sample.value
    return found


def _version(labels: Mapping[str, str]) -> VersionOf | None:
    try:
        return labels["model"], int(labels["version"])
    except (KeyError, ValueError):
        return None
