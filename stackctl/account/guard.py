"""Read the credentials' account, and refuse one that the stack does not allow."""

from __future__ import annotations

from dataclasses import dataclass

from botocore.exceptions import BotoCoreError, ClientError

from console import aws_errors
from spec.failure import NOT_TRIED, Failure
from spec.settings import Settings
from spec.stack_names import stack_file
from stackctl.account.read_only import AwsUnusable, Readers

IDENTITY_OPERATIONS = {"sts": {"GetCallerIdentity": "sts:GetCallerIdentity"}}
ALLOWED_ACCOUNTS_KEY = "aws:allowedAccountIds"


class WrongAccount(Failure):
    """The credentials are for an account that the stack does not allow. The text names both."""

    exit_code = NOT_TRIED


@dataclass(frozen=True)
class Caller:
    """The identity of the credentials, from STS."""

    account: str
    arn: str


def caller(readers: Readers) -> Caller:
    """Return the caller's identity from STS.

    Raises AwsUnusable if STS does not answer, or AWS does not accept the credentials.
    """
    try:
        identity = readers("sts").get_caller_identity()
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "an error")
        raise AwsUnusable(
            aws_errors.explain(error)
            or f"AWS does not accept the credentials ({code}): log in again ({aws_errors.LOG_IN}), or correct the access key"
        ) from None
    except BotoCoreError as error:
        raise AwsUnusable(str(aws_errors.explain(error))) from None
    return Caller(account=identity["Account"], arn=identity["Arn"])


def require_account(who: Caller, settings: Settings) -> None:
    """Refuse an account that the stack file does not name. Raises WrongAccount."""
    file = stack_file(settings.stack)
    if settings.allowed_account_ids is None:
        raise WrongAccount(
            f"{file} names no account, and the credentials are for {who.account} ({who.arn}); if that is the right one, "
            f'write {ALLOWED_ACCOUNTS_KEY}: ["{who.account}"] there'
        )
    if who.account not in settings.allowed_account_ids:
        named = ", ".join(settings.allowed_account_ids)
        raise WrongAccount(
            f"the credentials are for account {who.account} ({who.arn}), and {file} is for {named} "
            f"({ALLOWED_ACCOUNTS_KEY}); log in to that one"
        )
