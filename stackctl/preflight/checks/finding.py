"""The finding of a check, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """`unknown`: AWS did not tell, so that the check says nothing either way."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """One sentence about the account, and one about what to do ("" where there is nothing to do)."""

    status: Status
    message: str
    remedy: str = ""


def ok(message: str) -> Finding:
    """Return the finding that something is as it has to be."""
    return Finding(Status.OK, message)


def warn(message: str, remedy: str) -> Finding:
    """Return the finding that `pulumi up` works and something will not, later."""
    return Finding(Status.WARN, message, remedy)


def fail(message: str, remedy: str) -> Finding:
    """Return the finding that `pulumi up` fails, or what it makes does not work."""
    return Finding(Status.FAIL, message, remedy)


def unknown(message: str, remedy: str = "") -> Finding:
    """Return the finding that something could not be found out."""
    return Finding(Status.UNKNOWN, message, remedy)
