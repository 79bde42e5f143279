"""Programs of this repository that are started as `python3 -m …`: whether there is one, and what it says of itself."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import runpy
import sys
import warnings
from functools import cache
from pathlib import Path
from unittest import mock

import virtual_environment

ROOT = Path(__file__).resolve().parents[3]
_ROOTS = (ROOT, ROOT / "policies")
"""Where modules lie: as in pytest's `pythonpath`."""


def source(module: str) -> Path | None:
    """What `python3 -m` would run of this repository: the module, or the `__main__` of the package."""
    for root in _ROOTS:
        path = root.joinpath(*module.split("."))
        for found in (path.with_suffix(".py"), path / "__main__.py"):
            if found.is_file():
                return found
    return None


def is_of_others(module: str) -> bool:
    """Whether it is a module of Python or of an installed package (`venv`, `pip`)."""
    top = module.partition(".")[0]
    return not any((root / top).exists() for root in _ROOTS) and importlib.util.find_spec(top) is not None


def has_a_command_line(program: Path) -> bool:
    """Whether a program knows `--help`: those that read their arguments by hand do not, and would begin to work."""
    package = [program.with_name("cli.py")] if program.name == "__main__.py" else []
    texts = [path.read_text(encoding="utf-8") for path in [program, *package] if path.is_file()]
    return any(re.search(r"^(?:import|from) (?:argparse|typer)\b", text, re.MULTILINE) for text in texts)


@cache
def help_of(module: str, word: str) -> str | None:
    """What `python3 -m MODULE WORD --help` prints, None when it fails. In this process, and with wide lines."""
    output = io.StringIO()
    code: object = 0
    with (
        mock.patch.object(sys, "argv", [module, *([word] if word else []), "--help"]),
        mock.patch.object(virtual_environment, "enter"),
        mock.patch.dict("os.environ", {"COLUMNS": "400", "NO_COLOR": "1", "TERM": "dumb"}),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
        warnings.catch_warnings(),
    ):
        # A second copy of a module that is imported already is what is wanted: its last lines are the program.
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            runpy.run_module(module, run_name="__main__")
        except SystemExit as ended:
            code = ended.code
    return output.getvalue() if code in (0, None) else None
