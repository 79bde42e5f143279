"""A check: the subject that it is given, its findings, and how a missing permission becomes one."""

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


@dataclass(frozen=True)
class Subject:
    """A stack, and the account that it would go to."""

    settings: Settings
    readers: Readers
    caller: Caller

    @property
    def owner(self) -> Ownership:
        """Return how its own things are told from others'."""
        return Ownership.of(self.settings)

    @property
    def partition(self) -> str:
        """`aws`, `aws-cn` or `aws-us-gov`."""
        return self.caller.arn.split(":")[1]


@dataclass(frozen=True)
class Check:
    """A question about the account. Its name stands in the table; `ask` answers with one finding or several."""

    name: str
    ask: Callable[[Subject], Iterable[Finding]]


def findings(check: Check, subject: Subject) -> Iterator[Finding]:
    """Yield what the check finds; where AWS does not answer, that. What was found before is kept."""
    try:
        yield from check.ask(subject)
    except ClientError as error:
        yield unanswered(error, subject.readers)
    except BotoCoreError as error:
        yield unknown(f"AWS does not answer: {one_line(str(error))}")


def unanswered(error: ClientError, readers: Readers) -> Finding:
    """Return the finding of an operation that AWS refused."""
    operation = error.operation_name
    actions = readers.actions_of(operation)
    if is_denied(error):
        return unknown(f"needs {actions}", f"give the credentials {actions}: docs/preflight.md has the whole policy")
    details = error.response.get("Error", {})
    return unknown(f"AWS answered {actions} with {details.get('Code')}: {one_line(details.get('Message', 'no message'))}")
