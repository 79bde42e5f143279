"""Check that the credentials belong to the stack's account."""

from __future__ import annotations

from collections.abc import Iterator

from stackctl.account.guard import ALLOWED_ACCOUNTS_KEY, WrongAccount, require_account
from stackctl.preflight.checks.check import Finding, Subject, fail, ok, warn


def check(subject: Subject) -> Iterator[Finding]:
    """Compare the caller's account with `aws:allowedAccountIds` of the stack file."""
    caller = subject.caller
    try:
        require_account(caller, subject.settings)
    except WrongAccount as error:
        message, _, remedy = str(error).partition("; ")
        named = subject.settings.allowed_account_ids is not None
        yield fail(message, remedy) if named else warn(message, remedy)
        return
    if caller.arn.endswith(":root"):
        yield warn(
            f"{caller.account}, as {ALLOWED_ACCOUNTS_KEY} says; the credentials are the root user's, who would be an "
            "administrator of the cluster for good",
            "create a user or role with AdministratorAccess, and log in as that",
        )
        return
    yield ok(f"{caller.account}, as {ALLOWED_ACCOUNTS_KEY} says; {caller.arn}")
