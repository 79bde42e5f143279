"""Workers as processes, against moto and a real Triton."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.serving.pods import Pod
from tests.worker.requests import echo, key
from tests.worker.site import BUCKET, REGION, Site, running_site
from worker.aws import Aws
from worker.failures import AttemptFailed
from worker.message import InputTensor
from worker.store import Store
from worker.tensors import Document

MESSAGES = 120
"""More than the workers have in hand (16 each). tests/system/serving/test_worker.py uses ten thousand."""
POISON = {
    "no json": "not json {",
    "unknown model": json.dumps(echo(1, model="nobody")),
    "wrong shape": json.dumps({"model": "echo", "inputs": [{**echo(1)["inputs"][0], "shape": [1, 2], "data": [1, 2]}]}),
    "foreign reply": json.dumps(echo(1, reply_to="https://sqs.us-west-2.amazonaws.com/1/other")),
    "null": json.dumps(echo(1)).replace("[1]}", "[null]}"),
    "no number": json.dumps(echo(float("nan"))),
}
REASONS = {
    **{"no json": "malformed", "foreign reply": "malformed", "null": "malformed", "no number": "malformed"},
    **{"unknown model": "rejected", "wrong shape": "rejected"},
}


@pytest.fixture
def patient_site(tmp_path: Path) -> Iterator[Site]:
    """Yield a site with more receives of a good message than killed or late workers can use up."""
    with running_site(tmp_path / "site", max_receives=20) as running:
        yield running


def test_each_result_is_stored_once_though_workers_are_killed_and_poison_ends_in_the_dead_letter_queue(
    patient_site: Site, triton: Pod
) -> None:
    site = patient_site
    chance = random.Random(5)  # noqa: S311 - the same kills in every run
    url = f"ipv4:{triton.grpc}"
    ids = site.send([echo(number) for number in range(MESSAGES)])
    poison = dict(zip(POISON, site.send(list(POISON.values())), strict=True))
    workers = [site.worker(url, visibility_seconds=3) for _ in range(2)]
    for stored, ending in ((20, signal.SIGKILL), (60, signal.SIGTERM)):
        site.until(lambda stored=stored: len(site.versions("results/")) >= stored, f"{stored} results")
        victim = workers.pop(chance.randrange(len(workers)))
        victim.kill(ending)
        workers.append(site.worker(url, visibility_seconds=3))
    site.until(lambda: site.left() == 0, "the queue to be empty")
    assert site.versions("results/") == {key(message): 1 for message in ids}
    numbers = [site.document(key(message))["outputs"][0]["data"] for message in ids]
    assert numbers == [[number + 1.0] for number in range(MESSAGES)]
    assert set(site.drain(site.dead)) == set(poison.values())
    said = {name: site.document(f"failures/{message}.json")["reason"] for name, message in poison.items()}
    assert said == REASONS


def test_a_redelivered_message_with_a_result_is_deleted_without_asking_triton(site: Site) -> None:
    (message,) = site.send([echo(1, reply_to=site.replies)])
    site.s3.put_object(Bucket=BUCKET, Key=key(message), Body=b"the first one")
    received = site.sqs.receive_message(QueueUrl=site.queue)["Messages"][0]
    site.sqs.change_message_visibility(QueueUrl=site.queue, ReceiptHandle=received["ReceiptHandle"], VisibilityTimeout=0)
    worker = site.worker("ipv4:127.0.0.1:1")
    site.until(lambda: site.left() == 0, "the message to be deleted")
    assert site.s3.get_object(Bucket=BUCKET, Key=key(message))["Body"].read() == b"the first one"
    assert worker.metric('triton_worker_messages_finished_total{outcome="duplicate"}') == 1
    (reply,) = site.drain(site.replies).values()
    assert json.loads(reply) == {"message_id": message, "model": "echo", "result": f"s3://{BUCKET}/{key(message)}"}


@pytest.fixture
def account(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Return the site, also as the AWS of this process."""
    for name, value in {"AWS_ENDPOINT_URL": site.url, "AWS_DEFAULT_REGION": REGION}.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    return site


def test_of_two_workers_with_the_same_message_one_writes_its_result(account: Site) -> None:
    async def write() -> list[bool]:
        client = Aws(concurrency=2)
        store = Store(client.s3, BUCKET)
        try:
            written = [Document(body, "text/plain", {}) for body in (b"one", b"two")]
            return [await store.write_once("results/echo/m.json", document) for document in written]
        finally:
            client.close()

    assert asyncio.run(write()) == [True, False]
    assert account.s3.get_object(Bucket=BUCKET, Key="results/echo/m.json")["Body"].read() == b"one"


def test_an_input_that_cannot_be_read_fails_its_own_message(account: Site) -> None:
    """It is no outage: treating it as one would slow down all other messages."""
    account.s3.put_object(Bucket=BUCKET, Key="inputs/whole", Body=b"1234")
    account.s3.put_object(Bucket=BUCKET, Key="inputs/empty", Body=b"")
    account.s3.put_object(Bucket=BUCKET, Key="inputs/replaced", Body=b"1234")
    account.s3.put_object(Bucket=BUCKET, Key="inputs/archived", Body=b"1", StorageClass="GLACIER")

    async def read(name: str) -> str:
        source = f"s3://{BUCKET}/inputs/{name}"
        tensor = InputTensor.model_validate({"name": "IN", "datatype": "FP32", "shape": [1], "source": source})
        client = Aws(concurrency=1)
        try:
            store = Store(client.s3, BUCKET)
            found = await store.find_input(tensor)
            if name == "replaced":
                account.s3.put_object(Bucket=BUCKET, Key="inputs/replaced", Body=b"12345")
            return f"{found.size}: {(await store.read_input(tensor, found)).decode()}"
        except AttemptFailed as failure:
            return str(failure).replace(f"{BUCKET}/inputs/", "")
        finally:
            client.close()

    assert [asyncio.run(read(name)) for name in ("whole", "empty", "replaced", "archived", "absent")] == [
        "4: 1234",
        "0: ",
        "rejected: input IN: s3://replaced was replaced while it was read",
        "rejected: input IN: S3 does not give s3://archived: InvalidObjectState: "
        "The operation is not valid for the object's storage class",
        "rejected: input IN: there is no s3://absent",
    ]


def test_a_term_gives_back_at_once_what_is_in_hand(site: Site) -> None:
    ids = site.send([echo(number) for number in range(20)])
    worker = site.worker("ipv4:127.0.0.1:1", visibility_seconds=600)  # the port is closed: all wait for Triton
    site.until(lambda: worker.status("/readyz") == 200 and worker.metric("triton_worker_messages_in_hand") > 0, "messages")
    assert worker.kill(signal.SIGTERM) == 0
    seen: set[str] = set()
    while messages := site.sqs.receive_message(QueueUrl=site.queue, MaxNumberOfMessages=10).get("Messages", []):
        seen |= {message["MessageId"] for message in messages}
    assert seen == set(ids)
    assert [line["event"] for line in worker.events("ended")] == ["ended"]


def test_a_triton_that_is_away_uses_up_no_attempts(site: Site, triton: Pod) -> None:
    ids = site.send([echo(number) for number in range(5)])
    worker = site.worker("ipv4:127.0.0.1:1", visibility_seconds=600)
    site.until(lambda: worker.status("/metrics") == 200, "the worker")
    site.until(lambda: worker.metric("triton_worker_unavailable_total") > 12, "many vain requests")
    assert site.left(site.dead) == 0
    worker.kill(signal.SIGTERM)
    site.worker(f"ipv4:{triton.grpc}")
    site.until(lambda: site.left() == 0, "the answers")
    assert sorted(site.versions("results/")) == sorted(key(message) for message in ids)
    assert site.versions("failures/") == {}


@pytest.mark.parametrize("form", ["json", "binary"])
def test_a_large_input_comes_from_the_bucket(site: Site, triton: Pod, form: str) -> None:
    site.s3.put_object(Bucket=BUCKET, Key="inputs/a", Body=struct.pack("<3f", 1.5, 2.5, float("inf")))
    tensor = {"name": "IN", "datatype": "FP32", "shape": [3, 1], "source": f"s3://{BUCKET}/inputs/a"}
    (message,) = site.send([{"model": "echo", "inputs": [tensor], "result": form}])
    site.worker(f"ipv4:{triton.grpc}")
    site.until(lambda: site.left() == 0, "the answer")
    if form == "json":
        (output,) = site.document(key(message))["outputs"]
        assert output == {"name": "OUT", "datatype": "FP32", "shape": [3, 1], "data": [2.5, 3.5, "Infinity"]}
        return
    found = site.s3.get_object(Bucket=BUCKET, Key=f"results/echo/{message}.bin")
    head, body = int(found["Metadata"]["inference-header-content-length"]), found["Body"].read()
    assert json.loads(body[:head])["outputs"][0]["parameters"] == {"binary_data_size": 12}
    assert struct.unpack("<3f", body[head:]) == (2.5, 3.5, float("inf"))


def test_an_environment_that_says_too_little_is_told_what_is_missing(site: Site) -> None:
    worker = site.worker("ipv4:127.0.0.1:1", queue_url="", concurrency=0)
    assert worker.process.wait(120) == 2
    assert [line.partition(":")[0] for line in worker.log_text().splitlines()] == ["WORKER_QUEUE_URL", "WORKER_CONCURRENCY"]


def test_a_worker_needs_no_more_memory_than_its_limit_whatever_a_message_says(site: Site) -> None:
    """If its parts were read as they come, each attempt of a message with 1 GiB would kill a worker."""
    at_a_time, input_mib = 2, 16
    elements = [[0]] * 260_000  # four bytes each, and eight as FP64: just below SQS's 1 MiB
    full = {"name": "IN", "datatype": "FP64", "shape": [len(elements), 1], "data": elements}
    site.s3.put_object(Bucket=BUCKET, Key="inputs/a", Body=bytes(16 * 2**20))
    source = {"datatype": "UINT8", "shape": [16 * 2**20], "source": f"s3://{BUCKET}/inputs/a"}
    large = {"model": "echo", "inputs": [{"name": "A", **source}]}
    hostile = {"model": "echo", "inputs": [{"name": f"A{number}", **source} for number in range(64)]}
    body = json.dumps({"model": "echo", "inputs": [full]}, separators=(",", ":"))
    (refused,) = site.send([hostile])
    site.send([large] * 4)
    for _ in range(8):  # at most ten are received while Triton is down
        site.sqs.send_message(QueueUrl=site.queue, MessageBody=body)
    limits = {"concurrency": at_a_time, "input_mib": input_mib, "visibility_seconds": 600, "request_seconds": 600}
    worker = site.worker("ipv4:127.0.0.1:1", **limits)
    site.until(lambda: site.versions("failures/"), "the message that is refused")
    assert list(site.versions("failures/")) == [f"failures/{refused}.json"]
    assert site.document(f"failures/{refused}.json")["detail"].endswith(
        "their objects have 1073741824 bytes together; a message has at most 67108864"
    )
    site.until(lambda: worker.metric("triton_worker_unavailable_total") > 40, "many attempts of the others")
    status = Path(f"/proc/{worker.process.pid}/status").read_text(encoding="ascii")
    peak = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    assert peak < 200 + 5 * (at_a_time + 10) + 4 * input_mib, "MiB of worker.memoryMiB by spec/settings/relations/worker.py"
