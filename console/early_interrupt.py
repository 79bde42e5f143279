"""Handle Ctrl-C with a short message from the first import on. Otherwise Python prints the traceback of its imports.

Entry points of commands import this module first; `console.program` takes over later.
"""

from __future__ import annotations

# The module beneath `signal`, whose own imports take milliseconds in which Ctrl-C would print a traceback.
import _signal as signal
import os

_CODE = 130


def end(*_: object) -> None:
    """Exit the process at once, because no work has begun."""
    os.write(2, b"error: interrupted\n")
    os._exit(_CODE)


if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell's background job ignores it
    signal.signal(signal.SIGINT, end)
# Blocked before the switch to another Python (console.virtual_environment), so a Ctrl-C in between is not lost.
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
