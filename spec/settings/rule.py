"""Rules beside the fields that they read: a method of a section (or a function of spec/settings/relations/) that is marked.

    @rule
    def _bounds_are_ordered(self, at: Place) -> Iterator[Problem]:
        \"\"\"Require min <= max.\"\"\"
        if self.min > self.max:
            yield at.problem("min", f"{self.min} is more than max {self.max}; give at most {self.max}")

It yields its problems and simply ends (`Absent`) where a value that it reads is missing or invalid: that has been told. The
first paragraph of its docstring stands in docs/stack-file.md.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, TypeVar

from spec.problem import Problem

ToldAs = Literal["problem", "warning"]
_MARK = "__told_as__"
_Rule = TypeVar("_Rule", bound=Callable[..., Iterator[Problem]])


@dataclass(frozen=True)
class Place:
    """Where a section stands: its path, the name of its stack, what that is (prod, …; "" not known), the date of the run."""

    path: str
    stack: str
    environment: str
    today: date

    def problem(self, key: str, message: str) -> Problem:
        """Return what is wrong with a key of the section, like `min` or `zones[1]`; with the section itself for ``""``."""
        return Problem(f"{self.path}.{key}" if self.path and key else self.path + key, message)


def rule(function: _Rule) -> _Rule:
    """Mark a rule that a stack must not break."""
    setattr(function, _MARK, "problem")
    return function


def warning(function: _Rule) -> _Rule:
    """Mark a rule that tells of what works today and should be changed soon."""
    setattr(function, _MARK, "warning")
    return function


def marked(names: Mapping[str, Any], told_as: ToldAs) -> list[Callable[..., Iterator[Problem]]]:
    """Return the rules of a class or a module (its `vars`), in the order in which they stand there."""
    return [value for value in names.values() if getattr(value, _MARK, None) == told_as]
