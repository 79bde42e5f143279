"""Problems in a stack file or values file, with messages that include a remedy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spec.failure import NOT_TRIED, Failure
from spec.wording import printable


@dataclass(frozen=True)
class Problem:
    """One problem: `path` is its place, and `message` says what is wrong and what is valid."""

    path: str
    message: str

    def __str__(self) -> str:
        return printable(f"{self.path}: {self.message}")


class SettingsError(Failure):
    """A stack file that cannot be used. `problems` lists all of its problems, not only the first one."""

    exit_code = NOT_TRIED

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.source = source
        self.problems = list(problems)
        super().__init__("\n".join(f"{source}: {problem}" for problem in self.problems))

    @classmethod
    def of_all(cls, errors: Sequence[SettingsError]) -> SettingsError:
        """Return one error that reports the problems of several files, each once."""
        found = cls(errors[0].source, [problem for error in errors for problem in error.problems])
        found.args = ("\n".join(dict.fromkeys(line for error in errors for line in str(error).splitlines())),)
        return found


def render_path(location: Sequence[str | int]) -> str:
    """Return a location as a path: `("gpu", "pools", 1, "min")` -> `gpu.pools[1].min`."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f".{part}" if path else part
    return path


def describe(value: object) -> str:
    """Return a description of a YAML value in the author's words: `'3' is text`, `true is a truth value`."""
    if value is None:
        return "it is empty"
    if isinstance(value, bool):
        return f"{str(value).lower()} is a truth value"
    if isinstance(value, int):
        return f"{value} is a number"
    if isinstance(value, float):
        return f"{value:g} is a fraction"
    if isinstance(value, str):
        return f"'{value}' is text"
    if isinstance(value, list):
        return "it is a list"
    return "it is a mapping"
