"""Process one message. It stores the result once, fails the attempt with a reason, or returns the message."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

import structlog
from tritonclient.grpc import InferInput

from worker import tensors
from worker.aws import AWS_ERRORS, code
from worker.failures import AttemptFailed, Stopping, Unavailable
from worker.limit import ConcurrencyLimit
from worker.memory import InputMemory
from worker.message import LARGEST_INPUT_BYTES, InferenceRequest, InputTensor, Malformed, parse
from worker.metrics import Metrics
from worker.queue import Message, RequestQueue
from worker.settings import WorkerSettings
from worker.store import InputObject, Store, result_key
from worker.tensors import Document
from worker.triton import Triton

T = TypeVar("T")
log = structlog.get_logger()
_MIB = 1024**2
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 10.0


class Outcome(StrEnum):
    """How a message was finished."""

    STORED = "stored"
    DUPLICATE = "duplicate"


class Processor:
    """Processes single messages. The caller deletes and returns messages."""

    def __init__(
        self,
        settings: WorkerSettings,
        queue: RequestQueue,
        store: Store,
        triton: Triton,
        limit: ConcurrencyLimit,
        metrics: Metrics,
        stopping: asyncio.Event,
    ) -> None:
        self._settings = settings
        self._queue = queue
        self._store = store
        self._triton = triton
        self._limit = limit
        self._memory = InputMemory(settings.input_mib * _MIB)
        self._metrics = metrics
        self._stopping = stopping

    async def process(self, message: Message) -> Outcome:
        """Answer a message: store its result and send the reply.

        Raises AttemptFailed when the message must come back later or cannot be answered, and Stopping when the worker stops
        before its turn. While Triton, S3 or SQS is down, the failed step is repeated here. So an outage uses up neither the
        attempts of good messages nor a finished inference.
        """
        request, inputs = self._request(message)
        key = result_key(request, message.id)
        deadline = time.monotonic() + self._settings.patience_seconds
        document = await self._patiently(message, deadline, lambda: self._answer(request, inputs, message, key))
        written = False
        if document is not None:
            written = await self._patiently(message, deadline, lambda: self._store.write_once(key, document))
        if written:
            self._metrics.age.observe(max(0.0, time.time() - message.sent_at))
        await self._patiently(message, deadline, lambda: self._tell(request, message, key))
        return Outcome.STORED if written else Outcome.DUPLICATE

    def _request(self, message: Message) -> tuple[InferenceRequest, list[InferInput | InputTensor]]:
        """Return the request and its inputs in the form of Triton's client, except inputs in the bucket.

        A message's lists take up to thirty times its size, so they are converted before the message waits for its turn.
        """
        try:
            request = parse(message.body)
            inputs = [tensors.to_input(one, None) if one.source is None else one for one in request.inputs]
        except Malformed as error:
            raise AttemptFailed("malformed", str(error)) from None
        if request.reply_to is not None and request.reply_to not in self._settings.reply_queues:
            raise AttemptFailed("malformed", f"reply_to: {request.reply_to} is not a queue that this worker may send to")
        return request.model_copy(update={"inputs": ()}), inputs

    async def _patiently(self, message: Message, deadline: float, step: Callable[[], Awaitable[T]]) -> T:
        """Return the result of the step, with as many attempts as fit before the deadline."""
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                return await step()
            except Unavailable as error:
                self._limit.refused()
                self._metrics.unavailable.inc()
                if time.monotonic() + pause > deadline:
                    raise AttemptFailed("unavailable", str(error)) from None
                if pause == _FIRST_PAUSE_SECONDS:
                    log.info("unavailable", message=message.id, detail=str(error))
            await self._pause(pause * random.uniform(0.5, 1.5))  # noqa: S311 - spreads retries, keeps no secret
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _answer(
        self, request: InferenceRequest, inputs: Sequence[InferInput | InputTensor], message: Message, key: str
    ) -> Document | None:
        """Return Triton's answer in its stored form; None if the store already has a result."""
        async with self._limit.slot():
            if message.redelivered and await self._store.exists(key):
                return None
            found = {one.name: await self._store.find_input(one) for one in inputs if isinstance(one, InputTensor)}
            async with self._memory.hold(self._checked_size(found)):
                read = [await self._read(one, found) if isinstance(one, InputTensor) else one for one in inputs]
                begun = time.monotonic()
                result = await self._triton.infer(request, read, message.id)
        self._metrics.inference.labels(request.model).observe(time.monotonic() - begun)
        self._limit.answered()
        return tensors.result_document(result, message.id, request.result)

    def _checked_size(self, found: Mapping[str, InputObject]) -> int:
        """Return the total bytes of a message's objects. Raises AttemptFailed if they exceed the limit of a message or of
        this worker."""
        size = sum(one.size for one in found.values())
        if size > LARGEST_INPUT_BYTES:
            said = f"their objects have {size} bytes together; a message has at most {LARGEST_INPUT_BYTES}"
        elif size > self._memory.most:
            said = f"their objects have {size} bytes together; this worker's memory has room for {self._memory.most}"
            said += " (worker.memoryMiB and worker.concurrency of the stack file)"
        else:
            return size
        raise AttemptFailed("malformed", f"inputs {', '.join(found)}: {said}")

    async def _read(self, tensor: InputTensor, found: Mapping[str, InputObject]) -> InferInput:
        content = await self._store.read_input(tensor, found[tensor.name])
        try:
            return tensors.to_input(tensor, content)
        except Malformed as error:
            raise AttemptFailed("malformed", str(error)) from None

    async def _tell(self, request: InferenceRequest, message: Message, key: str) -> None:
        """Send the reply at least once. If a worker dies between its reply and the deletion, the next worker replies
        again."""
        if request.reply_to is not None:
            body = {"message_id": message.id, "model": request.model, "result": f"s3://{self._store.bucket}/{key}"}
            try:
                await self._queue.send(request.reply_to, json.dumps(body))
            except AWS_ERRORS as error:
                raise Unavailable(f"SQS: {request.reply_to}: {code(error)}") from error
        if message.redelivered:
            await self._store.forget_failure(message)

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return
        raise Stopping
