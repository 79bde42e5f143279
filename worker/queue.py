"""The request queue: messages received, kept, given back and deleted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from worker.aws import Service
from worker.batches import Batcher, Entry, EntryRefused

BATCH = 10
"""The most messages that SQS gives at a time."""
_LONGEST_DELAY_SECONDS = 900
_DELETE_ATTEMPTS = 3


@dataclass(frozen=True)
class Message:
    """One receipt of a message. `receives` counts this one too; `sent_at` is in seconds since the epoch."""

    id: str
    receipt: str = field(repr=False)
    body: str = field(repr=False)
    receives: int
    sent_at: float

    @property
    def redelivered(self) -> bool:
        """Another worker, or this one, has had it before."""
        return self.receives > 1


class RequestQueue:
    """One SQS queue. Every method raises AWS_ERRORS; those of single messages EntryRefused too."""

    def __init__(self, sqs: Service, url: str, visibility_seconds: int, poll_seconds: int) -> None:
        self._sqs = sqs
        self._url = url
        self._visibility = visibility_seconds
        self._poll = poll_seconds
        self._deletes = Batcher(self._send_deletes)
        self._changes = Batcher(self._send_changes)

    async def receive(self, *, wait: bool = True) -> list[Message]:
        """Up to BATCH messages; none when none came within the poll's seconds, or without `wait` when none is there."""
        answer = await self._sqs.call(
            self._sqs.client.receive_message,
            QueueUrl=self._url,
            MaxNumberOfMessages=BATCH,
            WaitTimeSeconds=self._poll if wait else 0,
            VisibilityTimeout=self._visibility,
            MessageSystemAttributeNames=["ApproximateReceiveCount", "SentTimestamp"],
        )
        return [_message(item) for item in answer.get("Messages", [])]

    async def delete(self, message: Message) -> None:
        """Delete a message that is done with."""
        for attempt in range(1, _DELETE_ATTEMPTS + 1):
            try:
                await self._deletes.add({"ReceiptHandle": message.receipt})
                return
            except EntryRefused:
                if attempt == _DELETE_ATTEMPTS:
                    raise

    async def keep(self, message: Message) -> None:
        """Keep a message from everybody else for the visibility timeout from now."""
        await self._changes.add({"ReceiptHandle": message.receipt, "VisibilityTimeout": self._visibility})

    async def give_back(self, message: Message, seconds: int = 0) -> None:
        """Give a message to the next worker after so many seconds, at once for 0."""
        delay = min(seconds, _LONGEST_DELAY_SECONDS)
        await self._changes.add({"ReceiptHandle": message.receipt, "VisibilityTimeout": delay})

    async def send(self, url: str, body: str) -> None:
        """Sends a message to another queue."""
        await self._sqs.call(self._sqs.client.send_message, QueueUrl=url, MessageBody=body)

    async def _send_deletes(self, entries: list[Entry]) -> dict[str, str]:
        answer = await self._sqs.call(self._sqs.client.delete_message_batch, QueueUrl=self._url, Entries=entries)
        return _refused(answer)

    async def _send_changes(self, entries: list[Entry]) -> dict[str, str]:
        answer = await self._sqs.call(self._sqs.client.change_message_visibility_batch, QueueUrl=self._url, Entries=entries)
        return _refused(answer)


def _refused(answer: dict[str, Any]) -> dict[str, str]:
    return {entry["Id"]: f"{entry['Code']}: {entry.get('Message', '')}" for entry in answer.get("Failed", [])}


def _message(item: dict[str, Any]) -> Message:
    attributes = item.get("Attributes", {})
    return Message(
        id=item["MessageId"],
        receipt=item["ReceiptHandle"],
        body=item["Body"],
        receives=int(attributes.get("ApproximateReceiveCount", 1)),
        sent_at=int(attributes.get("SentTimestamp", 0)) / 1000,
    )
