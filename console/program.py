"""Run `stackctl`, `modelctl` or `twin`, and turn every failure into a sentence and an exit code (console.exit_codes).

Only the standard library is imported until it is known that a command runs, so Ctrl-C prints a short message from the start.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from console import early_interrupt, loopback, virtual_environment
from console.exit_codes import CLOSED_PIPE, DONE, INTERRUPTED, TERMINATED
from spec.failure import Failure

DEBUG = "--debug"
_WIDEST = 1000
"""Maximum columns of a terminal, because help is padded with blanks to the width in the environment."""


class Interrupted(Failure):
    """Ctrl-C; the text says what remains and how to resume."""

    exit_code = INTERRUPTED


@contextlib.contextmanager
def interruptible(advice: str | Callable[[], str]) -> Iterator[None]:
    """Turn Ctrl-C into Interrupted with this advice: what remains, and how to resume."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(advice if isinstance(advice, str) else advice()) from None


def main(name: str) -> NoReturn:
    """Run the command `name`, whose typer app is `<name>.cli.app`, on this process's arguments, and exit."""
    try:
        if signal.getsignal(signal.SIGINT) is early_interrupt.end:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        _prepare_streams()
        _forget_a_width_of_no_terminal()
        os.environ.update(loopback.direct(os.environ))
        virtual_environment.enter(name)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
        code = run(name, sys.argv[1:])
    except KeyboardInterrupt:
        code = _report(Interrupted("interrupted"), name)
    # A second Ctrl-C, while threads are awaited, ends the process silently.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _forget_what_cannot_be_written(sys.stdout)
    sys.exit(code)


def run(name: str, arguments: Sequence[str]) -> int:
    """Run the command `name` on these arguments; return its exit code. Failures go to standard error."""
    debug, arguments = _without_debug(arguments)
    return guard(name, lambda: _call(name, arguments), debug=debug)


def guard(name: str, work: Callable[[], Any], *, debug: bool = False) -> int:
    """Run `work`, which returns an exit code or None; return the exit code. Failures go to standard error.

    With `debug` the traceback of a failure comes first.
    """
    try:
        try:
            code = work()
        finally:
            sys.stdout.flush()  # at the end of the process, a write error would be silent
        return int(code or DONE)
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # rich ends a program so when its output has no reader
            return CLOSED_PIPE
        return _report(Failure(end.code), name) if isinstance(end.code, str) else int(end.code or DONE)
    except BaseException as error:
        if debug and not isinstance(error, BrokenPipeError):
            traceback.print_exc()
        return _report(error, name)


def _call(name: str, arguments: Sequence[str]) -> Any:
    import typer

    # Not `app()`, which ends the process silently for a closed pipe and for Ctrl-C.
    command = _command(name)
    try:
        with command.make_context(name, list(arguments)) as context:
            return command.invoke(context)
    except typer.Exit as end:
        return end.exit_code


@functools.cache  # the tests run more than a thousand in one process
def _command(name: str) -> Any:
    """Return typer's command object for the command `name`."""
    import typer

    command = typer.main.get_command(importlib.import_module(f"{name}.cli").app)
    _style(command)
    return command


def _style(command: Any) -> None:
    """Set the placeholders in the help of a command and its subcommands, in upper case. Flags have none."""
    import typer

    for parameter in command.get_params(typer.Context(command)):
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        elif parameter.metavar is None and parameter.param_type_name == "argument":
            parameter.metavar = parameter.name.upper()
        elif parameter.metavar is None:
            kind = parameter.bare_type().removeprefix("list[").removesuffix("]")
            parameter.metavar = {"str": "TEXT", "Path": "PATH", "int": "NUMBER", "float": "NUMBER"}.get(kind)
    for inner in getattr(command, "commands", {}).values():
        _style(inner)


def _without_debug(arguments: Sequence[str]) -> tuple[bool, list[str]]:
    """Return whether `--debug` is among the arguments, and the others. Arguments after `--` belong to another program."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    own = [argument for argument in arguments[:end] if argument != DEBUG]
    return len(own) < end, [*own, *arguments[end:]]


def _prepare_streams() -> None:
    """Make output work on any terminal. Closed streams lead to /dev/null, and characters that cannot be encoded are
    escaped."""
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # Left open, because it belongs to the process.
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115, PTH123
        elif name != "stdin":
            stream.reconfigure(errors="backslashreplace")


def _forget_a_width_of_no_terminal() -> None:
    for name in ("COLUMNS", "TERMINAL_WIDTH"):
        said = os.environ.get(name, "")
        if not (said.isascii() and said.isdigit() and 0 < len(said) < 10 and 0 < int(said) <= _WIDEST):
            os.environ.pop(name, None)


def _forget_what_cannot_be_written(stream: Any) -> None:
    """Discard buffered output, because the interpreter would try to write it again and fail."""
    try:
        stream.flush()
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def _report(error: BaseException, name: str) -> int:
    # Imported here, because most commands succeed.
    from console.explanation import explain
    from spec.wording import printable

    told = explain(error, name)
    try:
        if told.text:
            # The text may quote AWS, a pod's log or an event; control sequences must not reach the terminal.
            print("error:", printable(told.text, keep="\n\t"), file=sys.stderr, flush=True)
    except OSError:
        _forget_what_cannot_be_written(sys.stderr)
    return told.exit_code
