"""The times in Triton's Helm values that other resources have to agree with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spec import helm_values
from spec.names import TRITON_CHART
from spec.settings import ModelServing, Problem, SettingsError


@dataclass(frozen=True)
class Drain:
    """The times by which a pod of Triton ends (docs/drain.md). The longest request counts with its time in the queue, and to
    the end of its stream.
    """

    pre_stop_seconds: int
    longest_request_seconds: int


def read_drain(environment: str, serving: Mapping[str, ModelServing]) -> Drain:
    """Read how an environment's pods end, who wait for the streams of these models where those are longer.

    Raises SettingsError where neither values nor chart have it in whole seconds.
    """
    longest = max(_seconds(environment, "longestRequestSeconds"), longest_stream(serving))
    return Drain(_seconds(environment, "preStopSeconds"), longest)


def longest_stream(serving: Mapping[str, ModelServing]) -> int:
    """Return the most seconds that a request takes which is answered by a stream of known length; 0 where there is none."""
    streams = (wants.longest_request_seconds for wants in serving.values() if wants.longest_stream_seconds is not None)
    return max(streams, default=0)


def longest_answer(environment: str, serving: Mapping[str, ModelServing]) -> int:
    """Return the most seconds to an answer, of a stream to its first response. Raises SettingsError as `read_drain` does."""
    firsts = (wants.model_copy(update={"longest_stream_seconds": None}) for wants in serving.values())
    return max(_seconds(environment, "longestRequestSeconds"), *(wants.longest_request_seconds for wants in firsts), 0)


def _seconds(environment: str, key: str) -> int:
    layers = helm_values.value_layers(TRITON_CHART, environment)
    for values in (*reversed(layers.values()), helm_values.default_values(TRITON_CHART)):
        given = helm_values.value_at(values, f"drain.{key}")
        if isinstance(given, int):
            return given
    raise SettingsError(next(iter(layers)), [Problem(f"drain.{key}", "is missing; give whole seconds")])
