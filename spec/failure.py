"""Failures that are expected: mistakes of a person, and surroundings that do not allow what was asked for.

The outermost handler of every command (`console.program`) prints them as they are, so that nothing else has to.
"""

from __future__ import annotations

FAILED = 1
"""It was tried and failed, or the answer to what was asked is no."""
NOT_TRIED = 2
"""It could not be tried: the command line, a file, credentials, the network or a program is missing or wrong."""


class Failure(Exception):
    """Base of every expected failure. The text is for people: what is wrong, where, and what would be right.

    `exit_code` is the one with which a command ends that does not catch it.
    """

    exit_code = FAILED
