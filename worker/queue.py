"""The request queue: receive, keep, return and delete messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from worker.aws import Service
from worker.batches import Batcher, Entry, EntryRefused

BATCH = 10
"""The maximum number of messages that SQS returns at a time."""
_LONGEST_DELAY_SECONDS = 900
_DELETE_ATTEMPTS = 3


@dataclass(frozen=True)
class Message:
    """One receipt of a message. `receives` includes this receipt; `sent_at` is in seconds since the epoch."""

    id: str
    receipt: str = field(repr=False)
    body: str = field(repr=False)
    receives: int
    sent_at: float

    @property
    def redelivered(self) -> bool:
        """Return whether this or another worker has received it before."""
        return self.receives > 1


class RequestQueue:
    """One SQS queue. Every method raises AWS_ERRORS; methods for single messages raise EntryRefused too."""

    def __init__(self, sqs: Service, url: str, visibility_seconds: int, poll_seconds: int) -> None:
        self._sqs = sqs
        self._url = url
        self._visibility = visibility_seconds
        self._poll = poll_seconds
        self._deletes = Batcher(self._send_deletes)
        self._changes = Batcher(self._send_changes)

    async def receive(self, *, wait: bool = True) -> list[Message]:
        """Return up to BATCH messages. Wait for the poll's seconds if there are none, or return at once without `wait`."""
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
        """Delete a finished message."""
        for attempt in range(1, _DELETE_ATTEMPTS + 1):
            try:
                await self._deletes.add({"ReceiptHandle": message.receipt})
                return
            except EntryRefused:
                if attempt == _DELETE_ATTEMPTS:
                    raise

    async def keep(self, message: Message) -> None:
        """Keep a message invisible to other workers for the visibility timeout from now."""
        await self._changes.add({"ReceiptHandle": message.receipt, "VisibilityTimeout": self._visibility})

    async def give_back(self, message: Message, seconds: int = 0) -> None:
        """Return a message to the queue; it is visible after `seconds`, at most 15 minutes."""
        delay = min(seconds, _LONGEST_DELAY_SECONDS)
        await self._changes.add({"ReceiptHandle": message.receipt, "VisibilityTimeout": delay})

    async def send(self, url: str, body: str) -> None:
        """Send a message to another queue."""
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
