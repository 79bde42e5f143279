"""Read AWS without changing it: clients refuse operations that are not on a list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from console import aws_errors
from console.not_aws import A_PAGE, is_page, refuse_others_answers
from spec.failure import NOT_TRIED, Failure
from spec.iam_policy import allow, document
from spec.wording import printable

Operations = Mapping[str, Mapping[str, str]]
"""Service (boto3's name) -> operation -> the IAM action that AWS requires for it."""

_DRY_RUNS: Mapping[str, frozenset[str]] = {"ec2": frozenset({"RunInstances"})}
"""Operations that are allowed with `DryRun=True`, to which AWS answers without a change."""

CLIENT_CONFIG = Config(connect_timeout=5, read_timeout=30, retries={"mode": "standard", "max_attempts": 5})
"""Timeouts and retries of an AWS client."""
_LONGEST = 300
_MOST_BYTES = 64 * 1024**2
_Answer = TypeVar("_Answer")
NO_OBJECT = ("404", "NoSuchBucket", "NoSuchKey", "NotFound")
"""S3's error codes for a missing bucket or object."""
_DENIED = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError", "403"})


class Refused(RuntimeError):
    """A call of an operation that is not on the list. No request was sent."""


class AwsUnusable(Failure):
    """AWS does not answer, or only in part. The text is one sentence."""

    exit_code = NOT_TRIED


class Readers:
    """`readers("ec2")` returns a boto3 client of the region, one per service.

    Credentials, profile and endpoint come from the environment, as for every AWS tool. Before a request is built, its
    operation is looked up in `operations`, also for paginators and waiters. Dry runs are allowed. The clients raise
    Refused for other operations, and NotAws, a BotoCoreError, for a response that does not come from AWS.
    """

    def __init__(self, region: str, operations: Operations) -> None:
        self.region = region
        self.operations = operations
        self._clients: dict[tuple[str, str], Any] = {}
        try:
            self._session = boto3.Session(region_name=region)
        except BotoCoreError as error:
            raise AwsUnusable(str(aws_errors.explain(error))) from None

    def __call__(self, service: str, region: str | None = None) -> Any:
        """Return a client of `service`, in `region` if given. Raises AwsUnusable."""
        key = (service, region or self.region)
        if key not in self._clients:
            try:
                client = self._session.client(service, region_name=key[1], config=CLIENT_CONFIG)
            except (BotoCoreError, ValueError) as error:  # ValueError: an invalid address
                raise AwsUnusable(str(aws_errors.explain(error))) from None
            # Registered first, so the check comes before all other handlers and before a request.
            client.meta.events.register_first("provide-client-params.*.*", self._refuse_what_is_not_listed)
            refuse_others_answers(client)
            self._clients[key] = client
        return self._clients[key]

    def _refuse_what_is_not_listed(self, model: Any, params: Mapping[str, Any], **_: Any) -> None:
        service, operation = model.service_model.service_name, model.name
        if operation in _DRY_RUNS.get(service, ()) and params.get("DryRun") is True:
            return
        if operation not in self.operations.get(service, {}):
            raise Refused(f"{service}:{operation} is not on the list of operations that only read; nothing was sent")

    def actions_of(self, operation: str) -> str:
        """Return the IAM actions that operations of this name need, as words."""
        return " or ".join(sorted({known[operation] for known in self.operations.values() if operation in known}))


def error_code(error: ClientError) -> str:
    """Return the error code from AWS; "" without one."""
    return str(error.response.get("Error", {}).get("Code", ""))


def is_denied(error: ClientError) -> bool:
    """Return whether AWS refused because a permission is missing."""
    return error_code(error) in _DENIED


def or_none(ask: Callable[[], _Answer], *missing: str) -> _Answer | None:
    """Return the answer of AWS; None for one of these error codes. Raises ClientError for others."""
    try:
        return ask()
    except ClientError as error:
        if error_code(error) not in missing:
            raise
        return None


def has_object(s3: Any, bucket: str, key: str) -> bool:
    """Return whether an object is in a bucket. Raises ClientError, also without permission to list the bucket."""
    return or_none(lambda: s3.head_object(Bucket=bucket, Key=key), *NO_OBJECT) is not None


def read_object(s3: Any, bucket: str, key: str) -> bytes | None:
    """Return the content of an object, at most 64 MiB, or None. Raises ClientError."""
    answer = or_none(lambda: s3.get_object(Bucket=bucket, Key=key), *NO_OBJECT)
    return None if answer is None else bytes(answer["Body"].read(_MOST_BYTES))


def one_line(text: str) -> str:
    """Return an endpoint's text as one line of a table.

    Proxies and test servers answer with HTML pages.
    """
    if is_page(text):
        return f"{A_PAGE}: a proxy or a test server answers, not AWS"
    line = printable(" ".join(text.split()))
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} …"


def policy_document(operations: Operations, sid: str) -> str:
    """Return the IAM policy, as JSON text, that allows every operation of the list."""
    actions = sorted({action for known in operations.values() for action in known.values()})
    return document(allow(actions, ["*"], sid=sid))
