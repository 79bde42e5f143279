"""The counters of one Triton per model and version, read from its Prometheus text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from prometheus_client.parser import text_string_to_metric_families

_SUCCESS = "nv_inference_request_success"
_FAILURE = "nv_inference_request_failure"
_DURATION = "nv_inference_request_duration_us"
_PENDING = "nv_inference_pending_request_count"
_HISTOGRAM = "nv_inference_first_response_histogram_ms"

VersionOf = tuple[str, int]
"""A model and one of its versions."""


@dataclass
class Counters:
    """Since the version was loaded: requests by outcome, their summed duration, and how many took up to how many ms.

    `pending` are those that wait now. `buckets` is empty where the server exports no histogram (before 26.01).
    """

    success: float = 0.0
    failure: float = 0.0
    duration_us: float = 0.0
    pending: float = 0.0
    buckets: dict[float, float] = field(default_factory=dict)

    @property
    def finished(self) -> float:
        return self.success + self.failure

    def since(self, earlier: Counters) -> Counters:
        """Return what came after `earlier`, of the same server."""
        buckets = {bound: count - earlier.buckets.get(bound, 0.0) for bound, count in self.buckets.items()}
        return Counters(
            self.success - earlier.success,
            self.failure - earlier.failure,
            self.duration_us - earlier.duration_us,
            self.pending,
            buckets,
        )

    def __add__(self, other: Counters) -> Counters:
        bounds = {*self.buckets, *other.buckets}
        return Counters(
            self.success + other.success,
            self.failure + other.failure,
            self.duration_us + other.duration_us,
            self.pending + other.pending,
            {bound: self.buckets.get(bound, 0.0) + other.buckets.get(bound, 0.0) for bound in bounds},
        )

    def quantile_ms(self, share: float) -> float | None:
        """Return the smallest bucket's upper bound that `share` of the answers did not exceed; None without a histogram."""
        total = self.buckets.get(inf, 0.0)
        if not total:
            return None
        return next(bound for bound, count in sorted(self.buckets.items()) if count >= share * total)


def parse(text: str) -> dict[VersionOf, Counters]:
    """Return the counters by model and version. On GPUs a metric has two series per version: they are summed.

    See docs/facts/triton-metrics.md#pairs-on-gpus.
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
                counters.failure += sample.value
            elif name == _DURATION:
                counters.duration_us += sample.value
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
