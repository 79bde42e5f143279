"""Findings of a rule, and values that it cannot check yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from triton_policies.reading import NotKnownYet, Property, WrittenTwice
from triton_policies.resources import Resource

_Item = TypeVar("_Item", Property, Resource)


@dataclass(frozen=True)
class Violation:
    """A violation. `path` is the wrong property, "" for the whole resource. `resource` is for rules over a whole stack."""

    path: str
    problem: str
    resource: Resource | None = None
    fix: str | None = None
    """Only if it differs from the policy's own fix."""


@dataclass(frozen=True)
class Unjudged:
    """A check that depends on a value which this preview does not know."""

    path: str
    resource: Resource | None = None
    needs: str = ""
    """The name of another resource, or of this one, that has no properties yet."""


Finding = Violation | Unjudged


def attempt(check: Callable[[], Iterable[Finding]], resource: Resource | None = None) -> Iterator[Finding]:
    """Yield the findings of `check` up to the first value that is not known yet."""
    try:
        yield from check()
    except NotKnownYet as missing:
        yield Unjudged(missing.path, resource, missing.resource)
    except WrittenTwice as found:
        problem = f"the key {found.key} is there twice in one object, and it is open which of them counts"
        yield Violation(found.path, problem, resource, fix="write it once")


def each(items: Iterable[_Item], check: Callable[[_Item], Iterable[Finding]]) -> Iterator[Finding]:
    """Yield the findings of `check` for each item. An unknown value in one item does not hide problems of others."""
    for one in items:
        yield from attempt(partial(check, one), one if isinstance(one, Resource) else None)


def require(at: Property, holds: Callable[[object], bool], problem: str, *, fix: str | None = None) -> Iterator[Finding]:
    """Yield a violation unless the property's value holds; `{value}` in `problem` is replaced by the value."""

    def check() -> Iterator[Finding]:
        value = at.value
        if not holds(value):
            yield Violation(at.path, problem.format(value=shown(value)), fix=fix)

    yield from attempt(check)


def shown(value: object) -> str:
    """Return the value's form in messages."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "empty"
    return str(value)


def is_true(value: object) -> bool:
    """Return whether a switch is on, as a boolean or as the text used in launch templates."""
    return value is True or value == "true"
