"""Rules next to the fields that they read: decorated methods of a section, or functions in spec/settings/relations/.

    @rule
    def _bounds_are_ordered(self, at: Place) -> Iterator[Problem]:
        \"\"\"Require min <= max.\"\"\"
        if self.min > self.max:
            yield at.problem("min", f"{self.min} is more than max {self.max}; give at most {self.max}")

A rule yields its problems. It stops silently (`Absent`) if a value that it reads is missing or invalid, because that is
already reported. The first paragraph of its docstring appears in docs/stack-file.md.
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
    """Context of a rule: the section's path, the stack's name and environment (`""` if unknown), and the date of the run."""

    path: str
    stack: str
    environment: str
    today: date

    def problem(self, key: str, message: str) -> Problem:
        """Return a problem of a key like `min` or `zones[1]`, or of the section itself for ``""``."""
        return Problem(f"{self.path}.{key}" if self.path and key else self.path + key, message)


def rule(function: _Rule) -> _Rule:
    """Mark a rule that every stack has to comply with."""
    setattr(function, _MARK, "problem")
    return function


def warning(function: _Rule) -> _Rule:
    """Mark a rule that reports valid settings that should be changed soon."""
    setattr(function, _MARK, "warning")
    return function


def marked(names: Mapping[str, Any], told_as: ToldAs) -> list[Callable[..., Iterator[Problem]]]:
    """Return the rules of a class or a module (its `vars`), in the order of their definition."""
    return [value for value in names.values() if getattr(value, _MARK, None) == told_as]
