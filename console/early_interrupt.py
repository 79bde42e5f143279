"""Answer Ctrl-C with a sentence from the first import on: without it, Python shows where its imports were.

Imported first of all by what starts a command; `console.program` takes over.
"""

from __future__ import annotations

# Beneath `signal`, whose own imports take milliseconds in which Ctrl-C would be a traceback.
import _signal as signal
import os

_CODE = 130


def end(*_: object) -> None:
    """End the process at once: nothing has begun."""
    os.write(2, b"error: interrupted\n")
    os._exit(_CODE)


if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell's background job ignores it
    signal.signal(signal.SIGINT, end)
# Blocked by whoever went on with another Python (console.virtual_environment), so that it is not lost in between.
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
