"""Findings of a rule, and values that it cannot judge yet."""

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
    """`path`: the property at fault, "" for the resource as a whole. `resource`: for rules over a whole stack."""

    path: str
    problem: str
    resource: Resource | None = None
    fix: str | None = None
    """Where it differs from the policy's own."""


@dataclass(frozen=True)
class Unjudged:
    """Something that depends on a value which this preview does not know."""

    path: str
    resource: Resource | None = None
    needs: str = ""
    """The name of another resource, or of this one, that has no properties yet."""


Finding = Violation | Unjudged


def attempt(check: Callable[[], Iterable[Finding]], resource: Resource | None = None) -> Iterator[Finding]:
    """Yield what `check` finds, up to the first value that is not known yet."""
    try:
        yield from check()
    except NotKnownYet as missing:
        yield Unjudged(missing.path, resource, missing.resource)
    except WrittenTwice as found:
        problem = f"the key {found.key} is there twice in one object, and it is open which of them counts"
        yield Violation(found.path, problem, resource, fix="write it once")


def each(items: Iterable[_Item], check: Callable[[_Item], Iterable[Finding]]) -> Iterator[Finding]:
    """Yield what `check` finds in each of them: one that is not known does not hide what is wrong with another."""
    for one in items:
        yield from attempt(partial(check, one), one if isinstance(one, Resource) else None)


def require(at: Property, holds: Callable[[object], bool], problem: str, *, fix: str | None = None) -> Iterator[Finding]:
    """Yield a violation unless the property's value holds; `{value}` in `problem` is what it is."""

    def check() -> Iterator[Finding]:
        value = at.value
        if not holds(value):
            yield Violation(at.path, problem.format(value=shown(value)), fix=fix)

    yield from attempt(check)


def shown(value: object) -> str:
    """Return a value as messages show it."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "empty"
    return str(value)


def is_true(value: object) -> bool:
    """Return whether a switch is on, as a boolean or as the text that launch templates have."""
    return value is True or value == "true"
