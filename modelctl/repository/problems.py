"""What is wrong with a model repository, and where."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Problem:
    """One mistake: the file (or directory), the place in it where that is known (1-based), and a sentence."""

    path: Path
    message: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        place = "".join(f":{number}" for number in (self.line, self.column) if number is not None)
        return f"{self.path}{place}: {self.message}"


class Refusal(Exception):
    """What was asked for would do harm or cannot be; the text says what would be right."""


class ValidationFailed(Exception):
    """The repository cannot be released; `problems` holds every mistake that was found."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("\n".join(map(str, problems)))
