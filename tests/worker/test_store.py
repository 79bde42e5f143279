"""The outcome of a message whose object S3 does not return: an outage, a failed attempt, or the last attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ParamValidationError

from worker.failures import AttemptFailed, Unavailable
from worker.message import InputTensor
from worker.store import Store
from worker.tensors import Document

TENSOR = InputTensor(name="IN", datatype="FP32", shape=(1,), source="s3://bucket/inputs/a")


class Refusing:
    """An S3 that answers every call with the same error."""

    def __init__(self, error: Exception) -> None:
        self.client = SimpleNamespace(get_object=None, put_object=None, head_object=None)
        self._error = error

    async def call(self, operation: Callable[..., Any], **parameters: Any) -> Any:
        raise self._error


def refusal(code: str, status: int, message: str = "said") -> ClientError:
    answer: Any = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "GetObject")


def read(error: Exception) -> Exception:
    with pytest.raises((AttemptFailed, Unavailable)) as caught:
        asyncio.run(Store(Refusing(error), "bucket").find_input(TENSOR))  # type: ignore[arg-type]
    return caught.value


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("KMS.DisabledException", 400),
        ("KMS.KMSInvalidStateException", 400),
        ("KMS.NotFoundException", 400),
        ("InvalidRequest", 400),
        ("InvalidObjectState", 403),
        ("KeyTooLongError", 400),
        ("PermanentRedirect", 301),
        ("MethodNotAllowed", 405),
    ],
)
def test_an_object_that_stays_unreadable_ends_its_message_at_once(code: str, status: int) -> None:
    error = read(refusal(code, status, "the key is pending deletion"))
    assert isinstance(error, AttemptFailed)
    assert (error.reason, error.final) == ("rejected", True)
    assert error.detail == f"input IN: S3 does not give s3://bucket/inputs/a: {code}: the key is pending deletion"


@pytest.mark.parametrize(("code", "status"), [("AccessDenied", 403), ("NoSuchKey", 404), ("404", 404)])
def test_an_object_that_may_come_costs_an_attempt(code: str, status: int) -> None:
    error = read(refusal(code, status))
    assert isinstance(error, AttemptFailed)
    assert (error.reason, error.final) == ("rejected", False)


@pytest.mark.parametrize(
    "error",
    [
        *(
            refusal(code, status)
            for code, status in (
                ("SlowDown", 503),
                ("InternalError", 500),
                ("Throttling", 400),
                ("KMS.ThrottlingException", 400),
                ("RequestTimeout", 400),
                ("ExpiredToken", 400),
                ("RequestTimeTooSkewed", 403),
                ("SignatureDoesNotMatch", 403),
                ("NoSuchBucket", 404),
                ("TooManyRequests", 429),
                ("BadGateway", 502),
            )
        ),
        EndpointConnectionError(endpoint_url="s3"),
    ],
    ids=str,
)
def test_an_outage_says_nothing_about_the_message(error: Exception) -> None:
    assert isinstance(read(error), Unavailable)


def test_a_name_that_the_client_does_not_send_is_the_messages_mistake() -> None:
    error = read(ParamValidationError(report="Invalid length for parameter Key"))
    assert isinstance(error, AttemptFailed)
    assert (error.reason, error.final) == ("malformed", True)


def test_a_result_that_s3_never_takes_ends_its_message_at_once() -> None:
    store = Store(Refusing(refusal("EntityTooLarge", 400)), "bucket")  # type: ignore[arg-type]
    with pytest.raises(AttemptFailed) as caught:
        asyncio.run(store.write_once("results/m", Document(b"1234", "application/json", {})))
    assert caught.value.final
    assert caught.value.detail == "its result has 4 bytes, more than S3 takes in one piece"


@pytest.mark.parametrize("code", ["AccessDenied", "KMS.DisabledException", "NoSuchBucket", "SlowDown"])
def test_a_bucket_that_takes_no_result_is_an_outage_whatever_its_reason(code: str) -> None:
    store = Store(Refusing(refusal(code, 400)), "bucket")  # type: ignore[arg-type]
    with pytest.raises(Unavailable):
        asyncio.run(store.write_once("results/m", Document(b"1234", "application/json", {})))
