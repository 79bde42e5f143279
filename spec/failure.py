"""Expected failures: user errors, and environments that do not allow the requested operation.

The outermost handler of every command (`console.program`) prints their text unchanged.
"""

from __future__ import annotations

FAILED = 1
"""The operation failed, or the answer is no."""
NOT_TRIED = 2
"""The operation could not start: the command line, a file, credentials, the network or a program is missing or wrong."""


class Failure(Exception):
    """Base class of expected failures. The text tells users the problem, its place and the remedy.

    `exit_code` is the exit status of a command that does not catch it.
    """

    exit_code = FAILED
