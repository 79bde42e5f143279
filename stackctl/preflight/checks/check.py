"""A check: its subject, its findings, and the finding for a missing permission."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from botocore.exceptions import BotoCoreError, ClientError

from spec.ownership import Ownership
from spec.settings import Settings
from stackctl.account.guard import Caller
from stackctl.account.read_only import Readers, is_denied, one_line


class Status(StrEnum):
    """`unknown`: AWS gave no answer, so the check has no result."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """One sentence about the account, and one with the remedy ("" if none is needed)."""

    status: Status
    message: str
    remedy: str = ""


def ok(message: str) -> Finding:
    """Return a finding without a problem."""
    return Finding(Status.OK, message)


def warn(message: str, remedy: str) -> Finding:
    """Return a warning: `pulumi up` works, but something will fail later."""
    return Finding(Status.WARN, message, remedy)


def fail(message: str, remedy: str) -> Finding:
    """Return a failure: `pulumi up` fails, or its resources do not work."""
    return Finding(Status.FAIL, message, remedy)


def unknown(message: str, remedy: str = "") -> Finding:
    """Return a finding for a check without a result."""
    return Finding(Status.UNKNOWN, message, remedy)


@dataclass(frozen=True)
class Subject:
    """A stack, and its target account."""

    settings: Settings
    readers: Readers
    caller: Caller

    @property
    def owner(self) -> Ownership:
        """Return the rules that distinguish the stack's own resources from others."""
        return Ownership.of(self.settings)

    @property
    def partition(self) -> str:
        """`aws`, `aws-cn` or `aws-us-gov`."""
        return self.caller.arn.split(":")[1]


@dataclass(frozen=True)
class Check:
    """A check of the account. The table shows its name; `ask` yields one or several findings."""

    name: str
    ask: Callable[[Subject], Iterable[Finding]]


def findings(check: Check, subject: Subject) -> Iterator[Finding]:
    """Yield the check's findings. If AWS does not answer, keep the earlier findings and add one about it."""
    try:
        yield from check.ask(subject)
    except ClientError as error:
        yield unanswered(error, subject.readers)
    except BotoCoreError as error:
        yield unknown(f"AWS does not answer: {one_line(str(error))}")


def unanswered(error: ClientError, readers: Readers) -> Finding:
    """Return the finding for an operation that AWS refused."""
    operation = error.operation_name
    actions = readers.actions_of(operation)
    if is_denied(error):
        return unknown(f"needs {actions}", f"give the credentials {actions}: docs/preflight.md has the whole policy")
    details = error.response.get("Error", {})
    return unknown(f"AWS answered {actions} with {details.get('Code')}: {one_line(details.get('Message', 'no message'))}")
