"""Triton's Helm values that people write: checked against the stack before anything is deployed, and read where others
have to agree with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spec import helm_values
from spec.names import TRITON_CHART
from spec.settings import ModelServing, Problem, SettingsError
from spec.triton_options import check_arguments

_ARGUMENTS = "server.extraArgs"
LONGEST_REQUEST = "drain.longestRequestSeconds"


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


def check_extra_arguments(environment: str, server_version: str) -> None:
    """Refuse flags in an environment's values that server `server_version` would not understand, in one SettingsError.

    It names the file whose list holds: Helm replaces lists, so the environment's own takes the place of the base's.
    """
    layers = helm_values.value_layers(TRITON_CHART, environment)
    for path, values in reversed(layers.items()):
        arguments = _extra_arguments(values)
        if arguments is None:
            continue
        problems = [Problem(_ARGUMENTS, problem) for problem in check_arguments(arguments, server_version)]
        if problems:
            raise SettingsError(path, problems)
        return


def check_drain(environment: str, serving: Mapping[str, ModelServing]) -> None:
    """Refuse values by which pods would be stopped before a request that they accepted is answered, with a SettingsError.

    A full queue plus its last request has to fit (docs/drain.md). The time of an ensemble is that of its steps
    together, which a stack does not say. For streams whose length it says, the program waits by itself.
    """
    serving = {name: wants for name, wants in serving.items() if wants.longest_stream_seconds is None}
    if not serving:
        return
    slowest = max(serving, key=lambda name: serving[name].longest_request_seconds)
    needed = serving[slowest].longest_request_seconds
    for path, values in reversed(helm_values.value_layers(TRITON_CHART, environment).items()):
        given = helm_values.value_at(values, LONGEST_REQUEST)
        if not isinstance(given, int):
            continue
        if given < needed:
            model = serving[slowest]
            message = (
                f"{given} s, but a request of {slowest} may wait {model.queue_timeout_us / 1_000_000:g} s in the queue and "
                f"then take its SLO, {model.slo_p95_ms / 1000:g} s; give {needed} or more"
            )
            raise SettingsError(path, [Problem(LONGEST_REQUEST, message)])
        return


def _seconds(environment: str, key: str) -> int:
    layers = helm_values.value_layers(TRITON_CHART, environment)
    for values in (*reversed(layers.values()), helm_values.default_values(TRITON_CHART)):
        given = helm_values.value_at(values, f"drain.{key}")
        if isinstance(given, int):
            return given
    raise SettingsError(next(iter(layers)), [Problem(f"drain.{key}", "is missing; give whole seconds")])


def _extra_arguments(values: Mapping[str, Any]) -> list[str] | None:
    """Return `server.extraArgs` of one file; None where it has none. Other types are for the chart's schema to refuse."""
    arguments = helm_values.value_at(values, _ARGUMENTS)
    return [str(argument) for argument in arguments] if isinstance(arguments, list) else None
