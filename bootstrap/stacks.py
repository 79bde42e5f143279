"""Read the stacks of this checkout, as far as their permissions depend on their files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from spec import reading
from spec.failure import Failure
from spec.helm_values import value_at
from spec.problem import SettingsError
from spec.settings import read_config
from spec.stack_names import names, stack_file

ENVIRONMENTS = ("dev", "staging", "prod")
"""The environments that GitHub's workflows deploy, in the order of promotion."""


@dataclass(frozen=True)
class StackFacts:
    """The facts of a stack. `connection`: the ARN of its runner's CodeConnection (`cluster.apiAccess.runner`), if it has
    one."""

    name: str
    environment: str
    region: str
    connection: str | None = None


def read(checkout: Path) -> tuple[tuple[StackFacts, ...], list[str]]:
    """Return the stacks that the workflows can deploy, and a sentence about each unreadable file."""
    found, problems = [], []
    for name in names(checkout):
        try:
            config = read_config(reading.file(checkout / stack_file(name)), stack_file(name))
        except (Failure, SettingsError) as error:
            problems.append(str(error))
            continue
        environment, region = config.get("triton-eks:environment"), config.get("aws:region")
        if environment in ENVIRONMENTS and isinstance(region, str):
            connection = value_at(config, "triton-eks:cluster.apiAccess.runner.connectionArn")
            found.append(StackFacts(name, environment, region, connection if isinstance(connection, str) else None))
    return tuple(found), problems
