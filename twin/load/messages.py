"""A load of messages in the request queue, answered by its workers in their own time."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from modelctl.loadgen import Outcome, RequestFailed, Schedule, run
from modelctl.loadgen.result import OK
from modelctl.repository.golden import FILE as GOLDEN_FILE
from modelctl.repository.golden import Golden, GoldenError, flat
from modelctl.repository.model import Model
from spec import reading
from spec.reading import Unreadable
from twin.aws.base.clients import session
from twin.load.record import Moment, Tally
from twin.load.refused import LoadRefused
from twin.load.scaling import Scale

T = TypeVar("T")
UNANSWERED = "UNANSWERED"
"""The code of a message without a result _PATIENCE_SECONDS after the last one was sent."""
_PATIENCE_SECONDS = 600.0
_POLL_SECONDS = 2.0
_AWAY = (ClientError, BotoCoreError)


class Queue:
    """The request queue of a stack and the bucket of its results, at an AWS endpoint. Every method blocks."""

    def __init__(self, endpoint: str, region: str, outputs: Mapping[str, Any]) -> None:
        self._url: str = outputs["requestQueueUrl"]
        self._bucket: str = outputs["requestBucket"]
        aws = session(region)
        config = Config(retries={"max_attempts": 2}, connect_timeout=3, read_timeout=10)
        self._sqs = aws.client("sqs", endpoint_url=endpoint, config=config)
        self._s3 = aws.client("s3", endpoint_url=endpoint, config=config)

    def send(self, body: str) -> str:
        """Put a message into the queue, and return its id."""
        message: str = self._sqs.send_message(QueueUrl=self._url, MessageBody=body)["MessageId"]
        return message

    def waiting(self) -> int:
        """Return the number of messages in the queue, or being processed."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        counts = self._sqs.get_queue_attributes(QueueUrl=self._url, AttributeNames=names)["Attributes"]
        return sum(int(counts[name]) for name in names)

    def answered(self, model: str) -> set[str]:
        """Return the ids of the messages whose results are in the bucket."""
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=f"results/{model}/")
        keys = [item["Key"] for page in pages for item in page.get("Contents", [])]
        return {key.rpartition("/")[2].partition(".")[0] for key in keys}


def message_of(model: Model) -> str:
    """Return the body of a message that requests one inference: the first row of the model's golden.json.

    Raises LoadRefused if there is none.
    """
    path = model.directory / str(model.version) / GOLDEN_FILE
    try:
        golden = Golden.parse(str(path), reading.text_file(path))
    except (Unreadable, GoldenError) as error:
        raise LoadRefused(f"what a message that asks {model.name} says is taken from its {GOLDEN_FILE}: {error}") from None
    tensors = []
    for name, tensor in golden.inputs.items():
        shape = [1, *tensor.shape[1:]] if model.config.max_batch_size else list(tensor.shape)
        data = list(flat(tensor.data))[: math.prod(shape)]
        tensors.append({"name": name, "datatype": tensor.datatype, "shape": shape, "data": data})
    return json.dumps({"model": model.name, "inputs": tensors})


class MessageLoad:
    """Messages that independent clients put into the queue; each is answered once, by an object in the bucket."""

    def __init__(self, queue: Queue, schedule: Schedule, model: str, body: str) -> None:
        self.tally = Tally(schedule.due)
        self._queue = queue
        self._schedule = schedule
        self._model = model
        self._body = body
        self._sent: dict[str, tuple[float, float]] = {}
        """Messages without a result so far: when each was due, and when it was sent."""
        self._begun = 0.0
        self._looked = float("-inf")
        self._waiting: int | None = None

    async def run(self) -> None:
        """Send everything, and wait until each message has its result or timed out."""
        loop = asyncio.get_running_loop()
        self._begun = loop.time()
        result = await run(self._schedule, self._send, stop_when=self._count)
        for outcome in result.outcomes:
            if outcome.done is None:
                self.tally.add(outcome)
        deadline = loop.time() + _PATIENCE_SECONDS
        while self._sent and loop.time() < deadline:
            await asyncio.sleep(_POLL_SECONDS)
        for due, sent in self._sent.values():
            self.tally.add(Outcome(due, sent, None, UNANSWERED))

    async def moment(self, at: float, scale: Scale | None) -> Moment:
        """Return the moment, for `watch.Load`."""
        if at - self._looked >= _POLL_SECONDS:
            self._looked = at
            self._waiting = await self._ask(self._queue.waiting)
            for message in await self._ask(self._queue.answered, self._model) or ():
                if message in self._sent:
                    due, sent = self._sent.pop(message)
                    self.tally.add(Outcome(due, sent, self._now(), OK))
        return self.tally.moment(at, scale, self._waiting)

    async def _send(self, number: int) -> None:
        try:
            message = await asyncio.to_thread(self._queue.send, self._body)
        except _AWAY as error:
            raise RequestFailed(type(error).__name__) from None
        self._sent[message] = (self._schedule.due[number], self._now())

    def _now(self) -> float:
        return asyncio.get_running_loop().time() - self._begun

    def _count(self, outcome: Outcome) -> bool:
        """Count messages that could not be sent; a sent message has no response yet."""
        if not outcome.ok:
            self.tally.add(outcome)
        return False

    @staticmethod
    async def _ask(question: Callable[..., T], *arguments: str) -> T | None:
        try:
            return await asyncio.to_thread(question, *arguments)
        except _AWAY:
            return None
