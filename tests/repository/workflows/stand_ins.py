"""Fakes for programs that a step starts and a test must not start: they record their calls and answer."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

_PROGRAM = """#!{python}
import json, pathlib, shutil, sys

folder, called = pathlib.Path({folder!r}), pathlib.Path(sys.argv[0])
arguments = [str(called) if not called.is_absolute() else called.name, *sys.argv[1:]]
with (folder / "calls").open("a") as calls:
    calls.write(json.dumps(arguments) + chr(10))
if arguments[1:3] == ["-m", "venv"]:
    made = pathlib.Path(arguments[3], "bin", "python")
    made.parent.mkdir(parents=True, exist_ok=True)
    if not made.exists():
        shutil.copy(called, made)
answers = json.loads((folder / "answers").read_text())
text, code = answers.get(" ".join(arguments), ["", 0])
sys.stdout.write(text)
sys.exit(code)
"""


class StandIns:
    """Programs in a folder on PATH. A command line without an answer prints nothing and exits with 0.

    `python3 -m venv` creates an environment whose Python is a fake too.
    """

    def __init__(self, folder: Path, on_path: Path) -> None:
        self._folder, self._on_path = folder, on_path
        folder.mkdir()
        self.answer({})

    def put(self, *names: str) -> None:
        """Create fakes with these names; they replace existing files."""
        for name in names:
            (self._on_path / name).write_text(_PROGRAM.format(python=sys.executable, folder=str(self._folder)))
            (self._on_path / name).chmod(0o755)

    def answer(self, answers: Mapping[str, tuple[str, int]]) -> None:
        """Set the output and the exit code of command lines."""
        (self._folder / "answers").write_text(json.dumps(dict(answers)))

    @property
    def calls(self) -> list[str]:
        """Return the command lines in order. A program that was called by a relative path has that path."""
        file = self._folder / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        return [" ".join(json.loads(line)) for line in lines]
