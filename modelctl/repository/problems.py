"""Mistakes in a model repository or in a stack file, with their places."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from spec.failure import Failure
from spec.wording import printable


@dataclass(frozen=True)
class Problem:
    """One mistake: a file or directory, an optional place in it (1-based), and a sentence."""

    path: Path
    message: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        place = "".join(f":{number}" for number in (self.line, self.column) if number is not None)
        return f"{printable(str(self.path))}{place}: {printable(self.message)}"


class ValidationFailed(Failure):
    """Models or stack files have mistakes; `problems` has all of them."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
        super().__init__("\n".join([f"{count}; nothing was released or changed:", *map(str, problems)]))
