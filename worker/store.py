"""The bucket: inputs that are too large for a message, results written once, and why messages failed."""

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
# Another write of the same key is under way: its outcome decides, so it is asked again.
_DECIDED, _UNDECIDED = frozenset({"412", "PreconditionFailed"}), frozenset({"409", "ConditionalRequestConflict"})
_WRITE_ATTEMPTS = 5
# Of this object, or of the worker's role for a moment, as when it is changed.
_DENIED = frozenset({"403", "AccessDenied", "AllAccessDisabled"})
_KEPT_BODY = 4096
_LONGEST_DETAIL = 500


def result_key(request: InferenceRequest, message_id: str) -> str:
    """Return where the result of a message lies: the same for each of its deliveries."""
    return f"{RESULTS}{request.model}/{message_id}.{_EXTENSIONS[request.result]}"


def failure_key(message_id: str) -> str:
    """Return where it says why a message failed last."""
    return f"{FAILURES}{message_id}.json"


class InputObject(NamedTuple):
    """An object below `inputs/` at one moment: its bytes, and S3's name of its content."""

    size: int
    etag: str | None


class _Empty(Exception):
    """There is no first byte to read."""


class Store:
    """One bucket. Every method raises Unavailable while S3 does not do what is asked of it."""

    def __init__(self, s3: Service, bucket: str) -> None:
        self._s3 = s3
        self.bucket = bucket

    async def exists(self, key: str) -> bool:
        """Return whether there is a result already. Raises Unavailable."""
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
        """Return size and revision of the object at the tensor's `source`, of which it reads one byte.

        A refusal of a HEAD request has no body, and so no reason. Raises as `read_input` does.
        """
        try:
            answer = await self._get(tensor, Range="bytes=0-0")
        except _Empty:
            return InputObject(0, None)
        answer["Body"].close()
        return InputObject(int(answer["ContentRange"].rpartition("/")[2]), answer["ETag"])

    async def read_input(self, tensor: InputTensor, found: InputObject) -> bytes:
        """Return the content of the object that `find_input` has found.

        Raises AttemptFailed without it, if it is no input of this queue, or if another one has taken its place, and
        Unavailable.

        An object that cannot be read fails its own message, at once where that stays so: one that is archived, or encrypted
        with a key that is disabled or deleted, or with a customer's own (SSE-C). Trying again, as in an outage, would slow
        down all the others.

        An object that is not there, and one that is denied, use up the attempts one by one: whoever writes the message may
        write the object just after it, and a role or a policy is not everywhere at once when it is changed
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
        """Return S3's answer, with its body unread."""
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
        """Write the result unless there is one; return whether it was written. Raises Unavailable and AttemptFailed."""
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
        """Write why a message's last attempt failed, beside what it said. Raises Unavailable."""
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
        """Remove what an earlier attempt said: a later one went well. Raises Unavailable."""
        try:
            await self._s3.call(self._s3.client.delete_object, Bucket=self.bucket, Key=failure_key(message.id))
        except aws.AWS_ERRORS as error:
            raise _unavailable(error) from error


def _message(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Message", "no message"))[:_LONGEST_DETAIL]


def _unavailable(error: Exception) -> Unavailable:
    return Unavailable(f"S3: {aws.code(error)}: {error}")
