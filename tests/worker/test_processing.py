"""An outage costs a message time, but no attempt and no repeated inference."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from botocore.exceptions import EndpointConnectionError
from tritonclient.grpc import InferInput, InferResult, service_pb2

from tests.worker.requests import echo, key
from worker import processing
from worker.failures import AttemptFailed, Stopping, Unavailable
from worker.limit import ConcurrencyLimit
from worker.message import InferenceRequest, InputTensor
from worker.metrics import Metrics
from worker.processing import Outcome, Processor
from worker.queue import Message
from worker.settings import WorkerSettings
from worker.store import InputObject

MIB = 1024**2
SIZES = {"a": 63 * MIB, "b": MIB, "c": MIB + 1, "d": 2 * MIB, "e": 2 * MIB, "f": 3 * MIB}
REPLIES = "https://sqs.us-west-2.amazonaws.com/123456789012/replies"


@dataclass
class Outside:
    """Triton, S3 and SQS, each down for its first calls. They record their calls in order."""

    away: dict[str, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    written: dict[str, bytes] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    held: int = 0
    most_held: int = 0
    bucket: str = "b"

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self.away.get(what, 0):
            self.away[what] -= 1
            if what == "send":
                raise EndpointConnectionError(endpoint_url="sqs")
            raise Unavailable(what)

    async def find_input(self, tensor: InputTensor) -> InputObject:
        self._ask(f"find {tensor.name}")
        return InputObject(self.sizes[tensor.name], "etag")

    async def read_input(self, tensor: InputTensor, found: InputObject) -> bytes:
        self._ask(f"read {tensor.name}")
        self.held += found.size
        self.most_held = max(self.most_held, self.held)
        return bytes(found.size)

    async def infer(self, request: InferenceRequest, inputs: Sequence[InferInput], message_id: str) -> InferResult:
        self._ask("infer")
        for _ in range(10):  # let others run
            await asyncio.sleep(0)
        self.held -= sum(self.sizes.get(one.name(), 0) for one in inputs)
        response = service_pb2.ModelInferResponse(model_name="echo", model_version="1")
        response.outputs.add(name="OUT", datatype="FP32", shape=[1])
        response.raw_output_contents.append(np.float32(2).tobytes())
        return InferResult(response)

    async def exists(self, name: str) -> bool:
        self._ask("exists")
        return name in self.written

    async def write_once(self, name: str, document: Any) -> bool:
        self._ask("write")
        return self.written.setdefault(name, document.body) is document.body

    async def forget_failure(self, message: Message) -> None:
        self._ask("forget")

    async def send(self, url: str, body: str) -> None:
        self._ask("send")
        self.sent.append(body)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processing, "_FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(processing, "_LONGEST_PAUSE_SECONDS", 0.001)


def message(body: dict[str, Any], receives: int = 1) -> Message:
    return Message(id="m", receipt="r", body=json.dumps(body), receives=receives, sent_at=0.0)


def of_objects(*names: str) -> dict[str, Any]:
    """Return a message body with an input for each object of `Outside.sizes`."""
    tensors = [
        {"name": name, "datatype": "UINT8", "shape": [SIZES[name]], "source": f"s3://bucket/inputs/{name}"} for name in names
    ]
    return {"model": "echo", "inputs": tensors}


def process(
    outside: Outside, received: Message, *, patience: float = 60.0, stopping: bool = False, input_mib: int = 64
) -> Outcome:
    """Return the message's outcome, with this many seconds of patience."""
    settings = WorkerSettings(
        queue_url="https://q/1/requests",
        bucket="bucket",
        triton_url="ipv4:127.0.0.1:1",
        concurrency=1,
        input_mib=input_mib,
        visibility_seconds=60,
        patience_seconds=patience,
        reply_queues=frozenset({REPLIES}),
    )

    async def work() -> Outcome:
        ending = asyncio.Event()
        if stopping:
            ending.set()
        parts: Any = (settings, outside, outside, outside, ConcurrencyLimit(1), Metrics(), ending)
        return await asyncio.wait_for(Processor(*parts).process(received), 60)

    return asyncio.run(work())


def test_a_message_of_the_most_bytes_is_answered_and_one_byte_more_is_refused_unread() -> None:
    outside = Outside(sizes=SIZES)
    assert process(outside, message(of_objects("a", "b"))) is Outcome.STORED
    assert outside.asked == ["find a", "find b", "read a", "read b", "infer", "write"]

    outside = Outside(sizes=SIZES)
    with pytest.raises(AttemptFailed) as caught:
        process(outside, message(of_objects("a", "c")))
    assert (caught.value.reason, caught.value.final) == ("malformed", True)
    assert caught.value.detail == ("inputs a, c: their objects have 67108865 bytes together; a message has at most 67108864")
    assert outside.asked == ["find a", "find c"]


def test_a_message_that_a_worker_has_no_memory_for_is_refused_unread() -> None:
    outside = Outside(sizes=SIZES)
    assert process(outside, message(of_objects("b")), input_mib=1) is Outcome.STORED
    with pytest.raises(AttemptFailed, match="1048577 bytes together; this worker's memory has room for 1048576") as caught:
        process(outside, message(of_objects("c")), input_mib=1)
    assert caught.value.final
    assert "read c" not in outside.asked


def test_requests_wait_for_one_anothers_memory_in_their_order() -> None:
    outside = Outside(sizes=SIZES)
    settings = WorkerSettings(
        queue_url="https://q/1/requests",
        bucket="bucket",
        triton_url="ipv4:127.0.0.1:1",
        concurrency=8,
        input_mib=4,
        visibility_seconds=60,
    )

    async def work() -> None:
        parts: Any = (settings, outside, outside, outside, ConcurrencyLimit(8), Metrics(), asyncio.Event())
        processor = Processor(*parts)
        received = [Message(name, "r", json.dumps(of_objects(name)), receives=1, sent_at=0.0) for name in "dfeb"]
        await asyncio.wait_for(asyncio.gather(*map(processor.process, received)), 60)

    asyncio.run(work())
    assert [one for one in outside.asked if one.startswith("read")] == ["read d", "read f", "read e", "read b"]
    assert outside.most_held == 3 * MIB, "f alone, and b beside e"
    assert outside.held == 0


def test_a_message_is_answered_written_and_told_of_in_this_order() -> None:
    outside = Outside()
    assert process(outside, message(echo(1, reply_to=REPLIES))) is Outcome.STORED
    assert outside.asked == ["infer", "write", "send"]
    assert [json.loads(body)["result"] for body in outside.sent] == [f"s3://b/{key('m')}"]


def test_what_triton_has_answered_is_not_asked_again_while_the_bucket_or_a_queue_is_away() -> None:
    outside = Outside(away={"infer": 2, "write": 3, "send": 3})
    assert process(outside, message(echo(1, reply_to=REPLIES))) is Outcome.STORED
    assert outside.asked == ["infer"] * 3 + ["write"] * 4 + ["send"] * 4


def test_a_redelivered_message_with_a_result_is_only_told_of() -> None:
    outside = Outside(written={key("m"): b"the first one"})
    assert process(outside, message(echo(1, reply_to=REPLIES), receives=2)) is Outcome.DUPLICATE
    assert outside.asked == ["exists", "send", "forget"]
    assert outside.written == {key("m"): b"the first one"}


def test_the_second_to_write_a_result_says_so() -> None:
    outside = Outside(written={key("m"): b"the first one"})
    assert process(outside, message(echo(1))) is Outcome.DUPLICATE
    assert outside.written == {key("m"): b"the first one"}


@pytest.mark.parametrize("what", ["infer", "write", "send"])
def test_an_outage_that_lasts_too_long_is_an_attempt(what: str) -> None:
    with pytest.raises(AttemptFailed) as caught:
        process(Outside(away={what: 1000}), message(echo(1, reply_to=REPLIES)), patience=0.01)
    assert caught.value.reason == "unavailable"


@pytest.mark.parametrize("what", ["infer", "write", "send"])
def test_a_worker_that_ends_during_an_outage_leaves_the_message_to_others(what: str) -> None:
    with pytest.raises(Stopping):
        process(Outside(away={what: 1000}), message(echo(1, reply_to=REPLIES)), stopping=True)
