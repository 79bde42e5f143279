"""The return of a message after a failed attempt: at once if every attempt must fail, otherwise with growing delays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from worker.failures import AttemptFailed
from worker.health import Health
from worker.metrics import Metrics
from worker.queue import Message
from worker.service import Worker
from worker.settings import WorkerSettings


class Recording:
    """An AWS service that accepts every call, and records its parameters by the operation's name."""

    def __init__(self) -> None:
        names = ("change_message_visibility_batch", "put_object")
        self.client = SimpleNamespace(**{name: name for name in names})
        self.calls: dict[Any, dict[str, Any]] = {}

    async def call(self, operation: Callable[..., Any], **parameters: Any) -> dict[str, Any]:
        self.calls[operation] = parameters
        return {}


@pytest.mark.parametrize(
    ("failure", "receives", "seconds"),
    [
        (AttemptFailed("malformed", "said"), 1, 0),
        (AttemptFailed("rejected", "said", final=True), 2, 0),
        (AttemptFailed("rejected", "said"), 1, 10),
        (AttemptFailed("rejected", "said"), 3, 40),
        (AttemptFailed("unavailable", "said"), 20, 900),
    ],
)
def test_a_failure_that_is_final_uses_up_the_attempts_at_once(failure: AttemptFailed, receives: int, seconds: int) -> None:
    settings = WorkerSettings(
        queue_url="https://sqs/q",
        bucket="bucket",
        triton_url="ipv4:127.0.0.1:1",
        concurrency=1,
        input_mib=1,
        visibility_seconds=60,
    )
    sqs, s3 = Recording(), Recording()
    message = Message(id="m", receipt="r", body="{", receives=receives, sent_at=0.0)

    async def work() -> None:
        aws: Any = SimpleNamespace(sqs=sqs, s3=s3)
        triton: Any = None
        worker = Worker(settings, aws, triton, Metrics(), Health(), asyncio.Event())
        await worker._fail(message, failure)

    asyncio.run(work())
    (entry,) = sqs.calls["change_message_visibility_batch"]["Entries"]
    assert (entry["ReceiptHandle"], entry["VisibilityTimeout"]) == ("r", seconds)
    kept = json.loads(s3.calls["put_object"]["Body"])
    assert (s3.calls["put_object"]["Key"], kept["reason"], kept["detail"]) == ("failures/m.json", failure.reason, "said")
