"""The bucket: large inputs, results that are written once, and reasons of failures."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

from worker import aws
from worker.aws import Service
from worker.failures import AttemptFailed, Unavailable
from worker.message import InferenceRequest, InputTensor
from worker.queue import Message
from worker.tensors import Document

INPUTS, RESULTS, FAILURES = "inputs/", "results/", "failures/"
_EXTENSIONS = {"json": "json", "binary": "bin"}
_ABSENT = frozenset({"404", "NoSuchKey", "NotFound"})
# Undecided: another write of the same key is running, and its outcome decides, so the write is repeated.
_DECIDED, _UNDECIDED = frozenset({"412", "PreconditionFailed"}), frozenset({"409", "ConditionalRequestConflict"})
_WRITE_ATTEMPTS = 5
# The object may be denied, or the worker's role for a moment, as when it is changed.
_DENIED = frozenset({"403", "AccessDenied", "AllAccessDisabled"})
_KEPT_BODY = 4096
_LONGEST_DETAIL = 500


def result_key(request: InferenceRequest, message_id: str) -> str:
    """Return the key of a message's result: the same for each of its deliveries."""
    return f"{RESULTS}{request.model}/{message_id}.{_EXTENSIONS[request.result]}"


def failure_key(message_id: str) -> str:
    """Return the key of the reason why a message failed last."""
    return f"{FAILURES}{message_id}.json"


class InputObject(NamedTuple):
    """An object below `inputs/` at one moment: its size in bytes, and the ETag of its content."""

    size: int
    etag: str | None


class _Empty(Exception):
    """The object has no first byte to read."""


class Store:
    """One bucket. Every method raises Unavailable while S3 fails."""

    def __init__(self, s3: Service, bucket: str) -> None:
        self._s3 = s3
        self.bucket = bucket

    async def exists(self, key: str) -> bool:
        """Return whether a result exists. Raises Unavailable."""
        try:
            await self._s3.call(self._s3.client.head_object, Bucket=self.bucket, Key=key)
        except ClientError as error:
            if aws.code(error) in _ABSENT:
                return False
            raise _unavailable(error) from error
        except BotoCoreError as error:
            raise _unavailable(error) from error
        return True

    async def find_input(self, tensor: InputTensor) -> InputObject:
        """Return size and revision of the object at the tensor's `source` by reading one byte.

        A HEAD request would not do, because its refusal has no body, and so no reason. Raises the errors of `read_input`.
        """
        try:
            answer = await self._get(tensor, Range="bytes=0-0")
        except _Empty:
            return InputObject(0, None)
        answer["Body"].close()
        return InputObject(int(answer["ContentRange"].rpartition("/")[2]), answer["ETag"])

    async def read_input(self, tensor: InputTensor, found: InputObject) -> bytes:
        """Return the content of the object that `find_input` found.

        Raises AttemptFailed if it is missing, is no input of this queue, or was replaced, and Unavailable.

        An unreadable object fails only its own message, at once if the error is permanent: the object is archived, or
        encrypted with a key that is disabled or deleted, or with a customer's key (SSE-C). Repeating the step, as in an
        outage, would slow down all other messages.

        A missing or denied object uses up the attempts one by one. The sender may write the object just after the message,
        and a changed role or policy takes effect with a delay
        (https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot.html#troubleshoot_general_eventual-consistency).
        """
        if found.size == 0:
            return b""
        answer = await self._get(tensor, IfMatch=found.etag)
        try:
            content: bytes = await self._s3.call(answer["Body"].read)
        except BotoCoreError as error:
            raise _unavailable(error) from error
        return content

    async def _get(self, tensor: InputTensor, **how: Any) -> dict[str, Any]:
        """Return S3's response, with its body unread."""
        bucket, key = tensor.location
        if bucket != self.bucket or not key.startswith(INPUTS):
            where = f"s3://{self.bucket}/{INPUTS}"
            raise AttemptFailed("malformed", f"input {tensor.name}: {tensor.source} is not below {where}")
        try:
            answer: dict[str, Any] = await self._s3.call(self._s3.client.get_object, Bucket=bucket, Key=key, **how)
        except ClientError as error:
            code = aws.code(error)
            if code == "InvalidRange":
                raise _Empty from None
            if code in _DECIDED:
                said = f"input {tensor.name}: {tensor.source} was replaced while it was read"
                raise AttemptFailed("rejected", said) from None
            if code in _ABSENT:
                raise AttemptFailed("rejected", f"input {tensor.name}: there is no {tensor.source}") from None
            if code in _DENIED or aws.is_final(error):
                said = f"input {tensor.name}: S3 does not give {tensor.source}: {code}: {_message(error)}"
                raise AttemptFailed("rejected", said, final=code not in _DENIED) from None
            raise _unavailable(error) from error
        except ParamValidationError as error:
            raise AttemptFailed("malformed", f"input {tensor.name}: {tensor.source}: {error}") from None
        except BotoCoreError as error:
            raise _unavailable(error) from error
        return answer

    async def write_once(self, key: str, document: Document) -> bool:
        """Write the result unless one exists; return whether it was written. Raises Unavailable and AttemptFailed."""
        for _ in range(_WRITE_ATTEMPTS):
            try:
                await self._s3.call(
                    self._s3.client.put_object,
                    Bucket=self.bucket,
                    Key=key,
                    Body=document.body,
                    ContentType=document.content_type,
                    Metadata=document.metadata,
                    IfNoneMatch="*",
                )
            except ClientError as error:
                if aws.code(error) in _DECIDED:
                    return False
                if aws.code(error) == "EntityTooLarge":
                    said = f"its result has {len(document.body)} bytes, more than S3 takes in one piece"
                    raise AttemptFailed("rejected", said, final=True) from None
                if aws.code(error) not in _UNDECIDED:
                    raise _unavailable(error) from error
            except BotoCoreError as error:
                raise _unavailable(error) from error
            else:
                return True
        raise Unavailable(f"S3: {key} was being written by others {_WRITE_ATTEMPTS} times over")

    async def record_failure(self, message: Message, failure: AttemptFailed) -> None:
        """Write why a message's last attempt failed, with the beginning of its body. Raises Unavailable."""
        document = {
            "message_id": message.id,
            "reason": failure.reason,
            "detail": failure.detail,
            "attempt": message.receives,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "body": message.body[:_KEPT_BODY],
            "body_characters": len(message.body),
        }
        try:
            await self._s3.call(
                self._s3.client.put_object,
                Bucket=self.bucket,
                Key=failure_key(message.id),
                Body=json.dumps(document, indent=2).encode(),
                ContentType="application/json",
            )
        except aws.AWS_ERRORS as error:
            raise _unavailable(error) from error

    async def forget_failure(self, message: Message) -> None:
        """Delete the recorded failure of an earlier attempt after a later one succeeded. Raises Unavailable."""
        try:
            await self._s3.call(self._s3.client.delete_object, Bucket=self.bucket, Key=failure_key(message.id))
        except aws.AWS_ERRORS as error:
            raise _unavailable(error) from error


def _message(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Message", "no message"))[:_LONGEST_DETAIL]


def _unavailable(error: Exception) -> Unavailable:
    return Unavailable(f"S3: {aws.code(error)}: {error}")
