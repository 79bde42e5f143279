"""Distinguish "not found" from other AWS errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from botocore.exceptions import ClientError

T = TypeVar("T")

# Codes that mean "not found". All others with this meaning end in one of the words below.
_NOT_FOUND = frozenset(
    {
        "404",
        "NoSuchBucket",
        "NoSuchBucketPolicy",
        "NoSuchEntity",
        "NoSuchHostedZone",
        "NoSuchLifecycleConfiguration",
        "NoSuchPublicAccessBlockConfiguration",
        "AWS.SimpleQueueService.NonExistentQueue",
        "QueueDoesNotExist",
    }
)
_NOT_FOUND_ENDINGS = ("NotFound", "NotFoundException", "NotFoundError")


def is_not_found(error: ClientError) -> bool:
    """Return whether AWS reports that the requested object does not exist."""
    code = error.response.get("Error", {}).get("Code", "")
    return code in _NOT_FOUND or code.endswith(_NOT_FOUND_ENDINGS)


def or_none(call: Callable[..., T], **parameters: Any) -> T | None:
    """Return the answer of a describe or get call, or None if its object does not exist."""
    try:
        return call(**parameters)
    except ClientError as error:
        if is_not_found(error):
            return None
        raise


@contextmanager
def gone_is_fine() -> Iterator[None]:
    """Ignore only "not found" errors, so deletions are idempotent."""
    try:
        yield
    except ClientError as error:
        if not is_not_found(error):
            raise
