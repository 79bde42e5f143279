"""A policy's case: resources that pass, changes that each cause one violation, and an unknown value."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pulumi_policy.proxy import UNKNOWN_STRING_VALUE

UNKNOWN = UNKNOWN_STRING_VALUE
"""A value that is unknown in a preview."""
ABSENT = object()
"""In a change: the property or the resource is absent."""
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")

Path = str | tuple[str | int, ...]
"""A dotted path with indices (`a.b[0]`), or its steps if a key contains a dot."""
Inputs = dict[str, Any]
Change = Mapping[Path, Any]


@dataclass(frozen=True)
class Made:
    """A resource of a stack. `sources`: property -> names of the resources that its value comes from."""

    type: str
    name: str
    properties: Inputs
    sources: Mapping[str, Sequence[str]]
    ignored: Sequence[str] = ()


@dataclass(frozen=True)
class Failure:
    """A change of passing inputs, and all its messages. For a stack, the change maps resources to their changes."""

    change: Mapping[Any, Any]
    told: tuple[str, ...]
    environment: str | None = None
    type: str | None = None
    """The resource has another type than the case: for policies about types that must not exist at all."""
    options: Mapping[str, Any] | None = None

    def of(self, case: Case) -> Case:
        """Return the case with this failure's settings, except the changed properties."""
        own = {"environment": self.environment, "type": self.type, "options": self.options}
        return replace(case, **{key: value for key, value in own.items() if value is not None})


@dataclass(frozen=True)
class Case:
    """`passes`: inputs of a resource `it`, or the resources of a stack. `unknown`: values that are unknown in a preview."""

    policy: str
    type: str
    passes: Inputs | tuple[Made, ...]
    fails: tuple[Failure, ...]
    unknown: Path | tuple[str, Path] | None
    environment: str = "prod"
    region: str | None = "us-west-2"
    accounts: Sequence[str] = ("123456789012",)
    needs_no_value: bool = False
    """The rule needs no known value: knowing where it comes from is enough."""
    options: Mapping[str, Any] | None = None
    config: Mapping[str, Any] | None = None


def fail(
    change: Mapping[Any, Any],
    *told: str,
    environment: str | None = None,
    type: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Failure:
    """Return a failure. `told`: every message, exact and in order."""
    return Failure(change, told, environment, type, options)


def made(type: str, name: str, properties: Inputs | None = None, **sources: str) -> Made:
    """Return a resource; `sources` as `subnetIds="a b"`."""
    return Made(type, name, properties or {}, {key: names.split() for key, names in sources.items()})


def changed(inputs: Inputs, change: Change) -> Inputs:
    """Return a copy of the inputs with some properties set; ABSENT removes a property."""
    result = _copied(inputs)
    for path, value in change.items():
        *parents, last = _steps(path)
        node: Any = result
        for step in parents:
            node = node.setdefault(step, {}) if isinstance(node, dict) else node[step]
        if value is not ABSENT:
            node[last] = value
        elif isinstance(node, dict):
            node.pop(last, None)
        else:
            del node[last]
    return result


def changed_stack(resources: Sequence[Made], change: Mapping[str, Any]) -> tuple[Made, ...]:
    """Return the stack with some resources changed; ABSENT removes a resource, and a resource adds itself."""
    found = []
    for one in resources:
        own = change.get(one.name, {})
        if own is ABSENT:
            continue
        if isinstance(own, Made):
            found.append(own)
        else:
            found.append(Made(one.type, one.name, changed(one.properties, own), one.sources))
    names = {one.name for one in resources}
    return (*found, *(own for name, own in change.items() if name not in names))


def text(path: Path) -> str:
    """Return the path as messages print it."""
    if isinstance(path, str):
        return path
    told = ""
    for step in path:
        if isinstance(step, int):
            told += f"[{step}]"
        elif re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", step):
            told += f".{step}" if told else step
        else:
            told += f'["{step}"]'
    return told


def _steps(path: Path) -> list[str | int]:
    if isinstance(path, tuple):
        return list(path)
    return [int(index) if index else key for index, key in _STEP.findall(path)]


def _copied(value: Any) -> Any:
    """Return a copy in which no two places share an object, so a change of one place does not change another."""
    if isinstance(value, dict):
        return {key: _copied(member) for key, member in value.items()}
    return [_copied(member) for member in value] if isinstance(value, list) else value
