"""Print the Prometheus rules of a stack, for people who run a Prometheus of their own."""

from __future__ import annotations

from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from spec.failure import NOT_TRIED, Failure
from spec.prometheus.rule_file import RUNBOOKS, groups, prometheus_rules
from spec.settings.addresses import WebAddress
from stackctl.stack_settings import settings_of


class NoAddress(Failure):
    """A value of --runbooks that is no https address; the text says why."""

    exit_code = NOT_TRIED


class _Readable(yaml.SafeDumper):
    """Leaves expressions of several lines on several lines."""


def _text(dumper: _Readable, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Readable.add_representer(str, _text)


def as_yaml(stack: str, runbooks: str | None = None, *, operator: bool = False) -> str:
    """Return the rule file of a stack, or with `operator` the same as objects of kind PrometheusRule. Raises Failure.

    `runbooks` is the URL under which people on call read docs/runbooks.
    """
    settings, pages = settings_of(stack), RUNBOOKS if runbooks is None else _address(runbooks)
    made: list[dict[str, Any]] = prometheus_rules(settings, pages) if operator else [{"groups": groups(settings, pages)}]
    return yaml.dump_all(made, Dumper=_Readable, sort_keys=False, width=1000)


def _address(runbooks: str) -> str:
    try:
        return TypeAdapter[str](WebAddress).validate_python(runbooks)
    except ValidationError as error:
        raise NoAddress(f"--runbooks: {error.errors()[0]['ctx']['sentence']}") from None
