"""Durations in Triton's Helm values that other resources use too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spec.settings import ModelServing
from spec.settings.chart_values import pod_values


@dataclass(frozen=True)
class Drain:
    """The durations of a Triton pod's shutdown (docs/drain.md).

    The longest request includes its time in the queue and, for a stream, the time to its end.
    """

    pre_stop_seconds: int
    longest_request_seconds: int


def read_drain(environment: str, serving: Mapping[str, ModelServing]) -> Drain:
    """Return the shutdown durations of an environment's pods, extended for the streams of these models if needed."""
    values = pod_values(environment)
    return Drain(values.pre_stop, max(values.longest_request, longest_stream(serving)))


def longest_stream(serving: Mapping[str, ModelServing]) -> int:
    """Return the longest seconds of a request with a stream of configured duration; 0 without such streams."""
    streams = (wants.longest_request_seconds for wants in serving.values() if wants.longest_stream_seconds is not None)
    return max(streams, default=0)


def longest_answer(environment: str, serving: Mapping[str, ModelServing]) -> int:
    """Return the longest seconds until a response, for a stream until its first response."""
    firsts = (wants.model_copy(update={"longest_stream_seconds": None}) for wants in serving.values())
    return max(pod_values(environment).longest_request, *(wants.longest_request_seconds for wants in firsts), 0)
