"""Start `stackctl`, `modelctl` or `twin`, and end it: every failure as a sentence and an exit code (console.exit_codes).

Imports the standard library alone until a command is known to run: Ctrl-C is answered with a sentence from the start on.
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
"""Columns of a terminal: help is filled up with blanks to the width that the environment says."""


class Interrupted(Failure):
    """Ctrl-C, with what is left and how to go on."""

    exit_code = INTERRUPTED


@contextlib.contextmanager
def interruptible(advice: str | Callable[[], str]) -> Iterator[None]:
    """Turn Ctrl-C into Interrupted with this advice: what is left, and how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(advice if isinstance(advice, str) else advice()) from None


def main(name: str) -> NoReturn:
    """Run the command `name`, whose typer app is `<name>.cli.app`, on the arguments of this process, and end the process."""
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
    # A second Ctrl-C, while threads are waited for, ends the process without a word.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _forget_what_cannot_be_written(sys.stdout)
    sys.exit(code)


def run(name: str, arguments: Sequence[str]) -> int:
    """Run the command `name` on these arguments; return its exit code. A failure is told on standard error."""
    debug, arguments = _without_debug(arguments)
    return guard(name, lambda: _call(name, arguments), debug=debug)


def guard(name: str, work: Callable[[], Any], *, debug: bool = False) -> int:
    """Do the work, which returns an exit code or nothing; return the exit code. A failure is told on standard error.

    With `debug` the traceback of a failure comes first.
    """
    try:
        try:
            code = work()
        finally:
            sys.stdout.flush()  # at the end of the process nobody would be told that it could not be written
        return int(code or DONE)
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # how rich ends a program whose output nobody reads
            return CLOSED_PIPE
        return _report(Failure(end.code), name) if isinstance(end.code, str) else int(end.code or DONE)
    except BaseException as error:
        if debug and not isinstance(error, BrokenPipeError):
            traceback.print_exc()
        return _report(error, name)


def _call(name: str, arguments: Sequence[str]) -> Any:
    """Call the function of the command; return what it returns."""
    import typer

    # Not as `app()` does it: that ends the process for a closed pipe and for Ctrl-C without a word.
    command = _command(name)
    try:
        with command.make_context(name, list(arguments)) as context:
            return command.invoke(context)
    except typer.Exit as end:
        return end.exit_code


@functools.cache  # in the process of the tests more than a thousand are run
def _command(name: str) -> Any:
    """Return the command `name` as typer makes it of its app."""
    import typer

    command = typer.main.get_command(importlib.import_module(f"{name}.cli").app)
    _style(command)
    return command


def _style(command: Any) -> None:
    """Show values in upper case in the help of a command and those below it, and flags without a type."""
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
    """Return whether `--debug` is among the arguments, and the others. Behind `--` stands what is another program's."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    own = [argument for argument in arguments[:end] if argument != DEBUG]
    return len(own) < end, [*own, *arguments[end:]]


def _prepare_streams() -> None:
    """Let output be written whatever the terminal: closed streams lead nowhere, what cannot be encoded is escaped."""
    for name in ("stdin", "stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # Left open: it is the process's.
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115, PTH123
        elif name != "stdin":
            stream.reconfigure(errors="backslashreplace")


def _forget_a_width_of_no_terminal() -> None:
    for name in ("COLUMNS", "TERMINAL_WIDTH"):
        said = os.environ.get(name, "")
        if not (said.isascii() and said.isdigit() and 0 < len(said) < 10 and 0 < int(said) <= _WIDEST):
            os.environ.pop(name, None)


def _forget_what_cannot_be_written(stream: Any) -> None:
    """Let what is still buffered go nowhere: the interpreter would try to write it, and fail, once more."""
    try:
        stream.flush()
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def _report(error: BaseException, name: str) -> int:
    # Here: most commands end well.
    from console.explanation import explain
    from spec.wording import printable

    told = explain(error, name)
    try:
        if told.text:
            # It may quote AWS, a pod's log or an event: no terminal may obey them.
            print("error:", printable(told.text, keep="\n\t"), file=sys.stderr, flush=True)
    except OSError:
        _forget_what_cannot_be_written(sys.stderr)
    return told.exit_code
