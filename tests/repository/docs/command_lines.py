"""Programs of this repository that start as `python3 -m …`: whether they exist, and their help."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import re
import runpy
import sys
import warnings
from functools import cache
from pathlib import Path
from unittest import mock

import typer
from typer.core import TyperGroup

from tests.command import run
from tests.paths import ROOT

_ROOTS = (ROOT, ROOT / "policies")
"""Roots of the modules, as in pytest's `pythonpath`."""


def source(module: str) -> Path | None:
    """Return the file of this repository that `python3 -m` would run: the module, or the package's `__main__`."""
    for root in _ROOTS:
        path = root.joinpath(*module.split("."))
        for found in (path.with_suffix(".py"), path / "__main__.py"):
            if found.is_file():
                return found
    return None


def is_of_others(module: str) -> bool:
    """Return whether the module belongs to Python or to an installed package (`venv`, `pip`)."""
    top = module.partition(".")[0]
    ours = any((root / top).exists() and not (root / top / "pyvenv.cfg").exists() for root in _ROOTS)
    return not ours and importlib.util.find_spec(top) is not None


def has_a_command_line(program: Path) -> bool:
    """Return whether a program accepts `--help`. Programs that parse arguments by hand do not, and would start to work."""
    return _is_a_command(program) or bool(
        re.search(r"^(?:import|from) (?:argparse|typer)\b", program.read_text(encoding="utf-8"), re.MULTILINE)
    )


def help_of(module: str, words: tuple[str, ...]) -> str | None:
    """Return the output of `python3 -m MODULE WORDS --help`, None if it fails. Runs in this process, with wide lines.

    Only the words that name a command count; the others are its arguments.
    """
    program = source(module)
    if program is not None and _is_a_command(program):
        return _help(module, tuple(_path(module, words)), of_a_command=True)
    return _help(module, words[:1], of_a_command=False)


@cache
def _help(module: str, words: tuple[str, ...], *, of_a_command: bool) -> str | None:
    with mock.patch.dict("os.environ", {"COLUMNS": "400", "NO_COLOR": "1", "TERM": "dumb"}):
        if of_a_command:
            done = run(module, *words, "--help")
            return done.output if done.exit_code == 0 else None
        return _help_of_a_module(module, words)


def _is_a_command(program: Path) -> bool:
    return program.name == "__main__.py" and program.with_name("cli.py").is_file()


def _path(module: str, words: tuple[str, ...]) -> list[str]:
    """Return the words that lead to a command of a program: one for each group, and one for the command."""
    found: list[str] = []
    command = _commands(module)
    for word in words:
        if not isinstance(command, TyperGroup):
            break
        found.append(word)
        command = command.commands.get(word)
    return found


@cache
def _commands(module: str) -> object:
    return typer.main.get_command(importlib.import_module(f"{module}.cli").app)


def _help_of_a_module(module: str, words: tuple[str, ...]) -> str | None:
    output = io.StringIO()
    code: object = 0
    with (
        mock.patch.object(sys, "argv", [module, *words, "--help"]),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
        warnings.catch_warnings(),
    ):
        # A second copy of an imported module is intended: the last lines of the module are the program.
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            runpy.run_module(module, run_name="__main__")
        except SystemExit as ended:
            code = ended.code
    return output.getvalue() if code in (0, None) else None
