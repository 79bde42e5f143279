"""Messages to a request queue, on moto's SQS and S3."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from modelctl.loadgen import Schedule
from twin.load.messages import MessageLoad, Queue, message_of
from twin.load.record import Moment
from twin.load.refused import LoadRefused
from twin.load.requests import model_of
from twin.load.scaling import Scale
from twin.load.watch import watch
from twin.services import release_sources
from worker import message

REGION, BUCKET, MODEL = "us-west-2", "results-of-a-test", "timed_batch"


class Account:
    """A queue and a bucket; `work` answers the queue's messages, like a worker."""

    def __init__(self, endpoint: str) -> None:
        session = boto3.session.Session("test", "test", region_name=REGION)
        self._sqs = session.client("sqs", endpoint_url=endpoint)
        self._s3 = session.client("s3", endpoint_url=endpoint)
        self._s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        self._url = self._sqs.create_queue(QueueName="requests")["QueueUrl"]
        self.queue = Queue(endpoint, REGION, {"requestQueueUrl": self._url, "requestBucket": BUCKET})

    def work(self, stop: threading.Event) -> None:
        while not stop.is_set():
            for item in self._sqs.receive_message(QueueUrl=self._url, WaitTimeSeconds=1).get("Messages", []):
                self._s3.put_object(Bucket=BUCKET, Key=f"results/{MODEL}/{item['MessageId']}.json", Body=b"{}")
                self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=item["ReceiptHandle"])


class Onlooker:
    """Starts to work after it has seen this many waiting messages."""

    def __init__(self, worker: threading.Thread, messages: int) -> None:
        self._worker = worker
        self._messages = messages

    def say(self, text: str) -> None:
        pass

    def show(self, moment: Moment) -> None:
        if moment.waiting == self._messages and not self._worker.is_alive():
            self._worker.start()


@pytest.fixture
def account() -> Iterator[Account]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield Account(f"http://{host}:{port}")
    finally:
        server.stop()


def test_each_message_waits_in_the_queue_until_its_result_is_there(account: Account) -> None:
    load = MessageLoad(account.queue, Schedule.constant(20, 0.5), MODEL, "{}")
    stop = threading.Event()
    worker = threading.Thread(target=account.work, args=[stop])

    async def look() -> Scale | None:
        return None

    try:
        asyncio.run(watch(load, look, Onlooker(worker, 10), asyncio.Event()))
    finally:
        stop.set()
        worker.join()
    assert len(load.tally.answered) == 10
    assert load.tally.failures == {}
    assert account.queue.waiting() == 0
    assert len(account.queue.answered(MODEL)) == 10


@pytest.mark.parametrize("name", ["pipeline", "timed_batch"])
def test_a_message_is_one_that_the_workers_understand(name: str, tmp_path: Path) -> None:
    models = release_sources.SLOW_MODELS if name == "timed_batch" else release_sources.SAMPLES
    read: Any = message.parse(message_of(model_of(models, name)))
    assert read.model == name
    assert [(tensor.shape[0], len(tensor.data) == tensor.elements) for tensor in read.inputs] == [(1, True)]


def test_a_model_without_an_example_cannot_be_asked_by_message() -> None:
    with pytest.raises(LoadRefused, match=r"^what a message that asks generate says is taken from its golden\.json: "):
        message_of(model_of(release_sources.SAMPLES.parent / "examples" / "models", "generate"))
