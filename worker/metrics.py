"""Prometheus metrics of the worker. Their names begin with triton_worker_."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_AGES = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400, 43200)


class Metrics:
    """The metrics of one worker. Only served models are labels, because a producer could send any number of names."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        r = self.registry
        self.received = Counter("triton_worker_messages_received_total", "Messages received, redeliveries too", registry=r)
        self.finished = Counter(
            "triton_worker_messages_finished_total",
            "Messages by what became of them: stored, duplicate, failed, returned",
            ["outcome"],
            registry=r,
        )
        self.failures = Counter("triton_worker_failures_total", "Failed attempts by reason", ["reason"], registry=r)
        self.unavailable = Counter(
            "triton_worker_unavailable_total", "Times that Triton or S3 was away or refused for load", registry=r
        )
        self.polls = Counter(
            "triton_worker_polls_total", "Receives from the queue: messages, empty, error", ["outcome"], registry=r
        )
        self.extensions_failed = Counter(
            "triton_worker_extensions_failed_total", "Messages whose visibility could not be extended", registry=r
        )
        self.inference = Histogram(
            "triton_worker_inference_seconds", "Time of answered requests at Triton", ["model"], buckets=_SECONDS, registry=r
        )
        self.age = Histogram(
            "triton_worker_message_age_seconds", "Time from a message's sending to its result", buckets=_AGES, registry=r
        )
        self.in_hand = Gauge("triton_worker_messages_in_hand", "Messages received and not done with", registry=r)
        self.limit = Gauge("triton_worker_concurrency_limit", "Requests that may be at Triton at a time, now", registry=r)
