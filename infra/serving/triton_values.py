"""The times in Triton's Helm values that other resources have to agree with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spec.settings import ModelServing
from spec.settings.chart_values import pod_values


@dataclass(frozen=True)
class Drain:
    """The times by which a pod of Triton ends (docs/drain.md). The longest request counts with its time in the queue, and to
    the end of its stream.
    """

    pre_stop_seconds: int
    longest_request_seconds: int


def read_drain(environment: str, serving: Mapping[str, ModelServing]) -> Drain:
    """Return how an environment's pods end; they wait for the streams of these models if those are longer."""
    values = pod_values(environment)
    return Drain(values.pre_stop, max(values.longest_request, longest_stream(serving)))


def longest_stream(serving: Mapping[str, ModelServing]) -> int:
    """Return the most seconds that a request takes which is answered by a stream of known length; 0 where there is none."""
    streams = (wants.longest_request_seconds for wants in serving.values() if wants.longest_stream_seconds is not None)
    return max(streams, default=0)


def longest_answer(environment: str, serving: Mapping[str, ModelServing]) -> int:
    """Return the most seconds to an answer, of a stream to its first response."""
    firsts = (wants.model_copy(update={"longest_stream_seconds": None}) for wants in serving.values())
    return max(pod_values(environment).longest_request, *(wants.longest_request_seconds for wants in firsts), 0)
