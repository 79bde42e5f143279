"""Helm values that people write, checked against the stack before anything is deployed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.platform import charts
from spec.settings import ModelServing, Problem, SettingsError
from spec.triton_options import check_arguments

_CHART = "triton"
_ARGUMENTS = "server.extraArgs"
_LONGEST_REQUEST = "drain.longestRequestSeconds"


def check_extra_arguments(environment: str, server_version: str) -> None:
    """Raises SettingsError with every flag in an environment's values that server `server_version` would not understand.

    It names the file whose list holds: Helm replaces lists, so the environment's own takes the place of the base's.
    """
    layers = charts.value_layers(_CHART, environment)
    for path, values in reversed(layers.items()):
        arguments = _extra_arguments(values)
        if arguments is None:
            continue
        problems = [Problem(_ARGUMENTS, problem) for problem in check_arguments(arguments, server_version)]
        if problems:
            raise SettingsError(path, problems)
        return


def check_drain(environment: str, serving: Mapping[str, ModelServing]) -> None:
    """Raises SettingsError when pods of the environment would be stopped before a request that they accepted is answered.

    A full queue plus its last request has to fit (docs/drain.md). The time of an ensemble is that of its steps
    together, which a stack does not say.
    """
    if not serving:
        return
    slowest = max(serving, key=lambda name: serving[name].longest_request_seconds)
    needed = serving[slowest].longest_request_seconds
    for path, values in reversed(charts.value_layers(_CHART, environment).items()):
        given = _value(values, _LONGEST_REQUEST)
        if not isinstance(given, int):
            continue
        if given < needed:
            model = serving[slowest]
            message = (
                f"{given} s, but a request of {slowest} may wait {model.queue_timeout_us / 1_000_000:g} s in the queue and "
                f"then take its SLO, {model.slo_p95_ms / 1000:g} s; give {needed} or more"
            )
            raise SettingsError(path, [Problem(_LONGEST_REQUEST, message)])
        return


def drain_seconds(environment: str, key: str) -> int:
    """`drain.<key>` of an environment's values. Raises SettingsError where no file has it as a whole number."""
    layers = charts.value_layers(_CHART, environment)
    for values in reversed(layers.values()):
        given = _value(values, f"drain.{key}")
        if isinstance(given, int):
            return given
    base = next(iter(layers))
    raise SettingsError(base, [Problem(f"drain.{key}", "is missing; the gateway has to know it; give whole seconds")])


def _extra_arguments(values: Mapping[str, Any]) -> list[str] | None:
    """`server.extraArgs` of one file; None where it has none. What is no list of text is for the chart's schema to say."""
    arguments = _value(values, _ARGUMENTS)
    return [str(argument) for argument in arguments] if isinstance(arguments, list) else None


def _value(values: Mapping[str, Any], path: str) -> Any:
    """What one file says at a dotted path; None where it says nothing."""
    found: Any = values
    for key in path.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found
