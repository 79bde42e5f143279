"""`python3 -m stackctl.rules STACK`: the rule file of a stack, for people who run a Prometheus of their own."""

from __future__ import annotations

from typing import Annotated, Any

import typer
import yaml

from console.stack_argument import StackArgument, settings_of
from spec.prometheus.rule_file import RUNBOOKS, groups, prometheus_rule


class _Readable(yaml.SafeDumper):
    """Expressions of several lines stay several lines."""


def _text(dumper: _Readable, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Readable.add_representer(str, _text)


def main(
    stack: StackArgument = "",
    runbooks: Annotated[str, typer.Option(help="URL under which people on call read docs/runbooks.")] = RUNBOOKS,
    operator: Annotated[bool, typer.Option("--operator", help="Print a PrometheusRule object instead of a file.")] = False,
) -> None:
    """Print the Prometheus rules of a stack as YAML."""
    settings = settings_of(stack)
    made: dict[str, Any] = prometheus_rule(settings, runbooks) if operator else {"groups": groups(settings, runbooks)}
    typer.echo(yaml.dump(made, Dumper=_Readable, sort_keys=False, width=1000), nl=False)
