"""Explain any exception to the user: a sentence with the remedy, and the exit code."""

from __future__ import annotations

import errno
import select
import subprocess
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

from console.exit_codes import CLOSED_PIPE, INTERRUPTED, PROGRAM_ERROR
from spec.failure import NOT_TRIED, Failure

_ROOT = Path(__file__).resolve().parents[1]
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_EXTRAS = {"twin": "triton-eks[program,twin]", "modelctl": "triton-eks[models]"}
"""The requirement for `pip install` with all dependencies of a command; `triton-eks` for the others."""

OF_TWIN = ("advise", "preview", "rehearse", "replay")
"""Commands of `twin` about a stack, which users may look for in `stackctl`."""


@dataclass(frozen=True)
class Explanation:
    """The text for standard error, and the exit code."""

    text: str
    exit_code: int


def explain(error: BaseException, command: str) -> Explanation:
    """Return the explanation of an exception that ended `command`."""
    if isinstance(error, Failure):
        return Explanation(str(error), error.exit_code)
    if isinstance(error, KeyboardInterrupt) or _was_at_a_question(error):
        return Explanation("interrupted", INTERRUPTED)
    if isinstance(error, BrokenPipeError) and _output_is_closed():
        return Explanation("", CLOSED_PIPE)
    for text in (_of_the_command_line(error), _of_aws(error), _of_surroundings(error, command)):
        if text is not None:
            return Explanation(text, NOT_TRIED)
    return _of_the_program(error, command)


def _was_at_a_question(error: BaseException) -> bool:
    """Return whether Ctrl-C ended a prompt. Typer raises the same exception at the end of input."""
    typer = sys.modules.get("typer")
    return typer is not None and isinstance(error, typer.Abort) and isinstance(error.__context__, KeyboardInterrupt)


def _of_the_command_line(error: BaseException) -> str | None:
    typer = sys.modules.get("typer")
    if typer is None:
        return None
    if isinstance(error, typer.Abort):
        return "a question was asked, and standard input has no answer"
    if not isinstance(error, typer.TyperException):
        return None
    said = error.format_message().rstrip(".")
    context = getattr(error, "ctx", None)
    if not said:  # without any arguments, it has shown its help
        return ""
    for name in OF_TWIN:
        unknown = f"No such command '{name}'"
        if said.startswith(unknown) and context is not None and context.command_path == "stackctl":
            return f"{unknown}; it is a command of `twin`: `python3 -m twin {name}`"
    return f"{said}; `{context.command_path} --help` lists what there is" if context is not None else said


def _of_aws(error: BaseException) -> str | None:
    """Return a sentence for a boto3 exception that no command has explained."""
    botocore = sys.modules.get("botocore.exceptions")
    if botocore is None:
        return None
    from console import aws_errors

    said = aws_errors.explain(error)
    if said is None and isinstance(error, botocore.ClientError):
        said = f"AWS cannot be asked: {' '.join(str(error).split())}"
    return said


def _of_surroundings(error: BaseException, command: str) -> str | None:
    if isinstance(error, ModuleNotFoundError):
        return _of_a_missing_package(error, command)
    if isinstance(error, subprocess.TimeoutExpired):
        words = error.cmd if isinstance(error.cmd, str) else " ".join(map(str, error.cmd))
        return f"`{words}` has not ended after {error.timeout:g} s; run it by hand to see why"
    if isinstance(error, MemoryError):
        return "memory ran out; end other programs and run it again"
    return _of_the_system(error) if isinstance(error, OSError) else None


def _of_a_missing_package(error: ModuleNotFoundError, command: str) -> str | None:
    package = (error.name or "").partition(".")[0]
    if not package or (_ROOT / package).exists() or package in sys.stdlib_module_names:
        return None
    whole = _EXTRAS.get(command, "triton-eks")
    return f"the Python package {package} is not installed: `make venv` in a checkout, else `pip install '{whole}'`"


def _of_the_system(error: OSError) -> str:
    place = str(error.filename) if error.filename is not None else ""
    if error.errno in _NO_SPACE:
        return f"{place or 'the output'} cannot be written: the disk is full; free some space and run it again"
    reason = (error.strerror or str(error) or type(error).__name__).rstrip(".")
    if _was_to_be_started(error):
        missing = isinstance(error, FileNotFoundError)
        return f"{place} is not installed, or not on PATH" if missing else f"{place} cannot be run: {reason}"
    return f"{place}: {reason}" if place else reason


def _was_to_be_started(error: OSError) -> bool:
    """Return whether a program on PATH, and not a file, was missing."""
    frames = traceback.extract_tb(error.__traceback__)
    started = bool(frames) and frames[-1].name == "_execute_child"
    return started and (not isinstance(error, FileNotFoundError) or "/" not in str(error.filename))


def _output_is_closed() -> bool:
    """Return whether standard output has lost its reader, because a BrokenPipeError may also come from a connection."""
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):
        return False
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _of_the_program(error: BaseException, command: str) -> Explanation:
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_ours(Path(frame.filename))]
    place = f" at {Path(own[-1].filename).relative_to(_ROOT)}:{own[-1].lineno}" if own else ""
    said = " ".join(str(error).split())
    what = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return Explanation(f"an error in {command} itself{place}: {what}; run it with --debug for the traceback", PROGRAM_ERROR)


def _is_ours(file: Path) -> bool:
    return file.is_relative_to(_ROOT) and ".venv" not in file.parts
