"""A complete asynchronous path on loopback: moto as SQS and S3, a real Triton, and worker processes that tests may kill."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import httpx
from botocore.config import Config

from tests.paths import ROOT
from twin.host import ports

REGION = "us-west-2"
BUCKET = "triton-requests-test"
_START_SECONDS = 60.0
_PORTS = itertools.cycle(random.sample(range(20000, 32000), 12000))
_KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}


@dataclass
class Site:
    """The account: a queue with its dead-letter queue, a queue for replies, a versioned bucket."""

    url: str
    directory: Path
    visibility_seconds: int = 5
    max_receives: int = 3
    workers: list[Worker] = field(default_factory=list)

    def __post_init__(self) -> None:
        config = Config(s3={"addressing_style": "path"}, max_pool_connections=20)
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
        make: dict[str, Any] = {"region_name": REGION, "endpoint_url": self.url, "config": config, **keys}
        self.sqs: Any = boto3.client("sqs", **make)
        self.s3: Any = boto3.client("s3", **make)
        self.s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        self.s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        self.dead = self.sqs.create_queue(QueueName="requests-dead")["QueueUrl"]
        self.replies = self.sqs.create_queue(QueueName="replies")["QueueUrl"]
        arn = self.sqs.get_queue_attributes(QueueUrl=self.dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": self.max_receives})
        attributes = {"VisibilityTimeout": str(self.visibility_seconds), "RedrivePolicy": redrive}
        self.queue = self.sqs.create_queue(QueueName="requests", Attributes=attributes)["QueueUrl"]

    def send(self, bodies: Sequence[str | dict[str, Any]]) -> list[str]:
        """Send messages; return their ids in the same order."""
        ids: list[str] = []
        texts = [body if isinstance(body, str) else json.dumps(body) for body in bodies]
        for first in range(0, len(texts), 10):
            entries = [{"Id": str(n), "MessageBody": text} for n, text in enumerate(texts[first : first + 10])]
            answer = self.sqs.send_message_batch(QueueUrl=self.queue, Entries=entries)
            by_entry = {entry["Id"]: entry["MessageId"] for entry in answer["Successful"]}
            ids.extend(by_entry[str(number)] for number in range(len(entries)))
        return ids

    def left(self, url: str | None = None) -> int:
        """Return the number of messages in a queue, visible or not."""
        names = (
            "ApproximateNumberOfMessages",
            "ApproximateNumberOfMessagesNotVisible",
            "ApproximateNumberOfMessagesDelayed",
        )
        found = self.sqs.get_queue_attributes(QueueUrl=url or self.queue, AttributeNames=list(names))["Attributes"]
        return sum(int(found[name]) for name in names)

    def drain(self, url: str) -> dict[str, str]:
        """Return all messages in a queue, by message id."""
        found: dict[str, str] = {}
        while messages := self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
            for message in messages:
                found[message["MessageId"]] = message["Body"]
                self.sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return found

    def versions(self, prefix: str) -> dict[str, int]:
        """Return how often each key below a prefix was written or deleted."""
        counts: dict[str, int] = {}
        for page in self.s3.get_paginator("list_object_versions").paginate(Bucket=BUCKET, Prefix=prefix):
            for version in [*page.get("Versions", []), *page.get("DeleteMarkers", [])]:
                counts[version["Key"]] = counts.get(version["Key"], 0) + 1
        return counts

    def document(self, key: str) -> dict[str, Any]:
        """Return a JSON object of the bucket."""
        found: dict[str, Any] = json.loads(self.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read())
        return found

    def worker(self, triton: str, *, wrapper: tuple[str, ...] = (), **changes: Any) -> Worker:
        """Start a worker on a free port; it stops with the site. `wrapper` is a command that starts it."""
        settings = {
            "queue_url": self.queue,
            "bucket": BUCKET,
            "triton_url": triton,
            "concurrency": 16,
            "input_mib": 64,
            "visibility_seconds": self.visibility_seconds,
            "poll_seconds": 1,
            "request_seconds": 10,
            "grace_seconds": 10,
            "retry_seconds": 0,
            "reply_queues": self.replies,
            "listen": f"127.0.0.1:{free_port()}",
            **changes,
        }
        worker = Worker(self, settings, self.directory / f"worker-{len(self.workers)}.log", wrapper)
        self.workers.append(worker)
        return worker

    def until(self, condition: Callable[[], Any], what: str, seconds: float = 120.0, every: float = 0.05) -> None:
        """Poll until the condition holds; otherwise raise AssertionError with the end of the workers' logs."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline or not any(worker.running for worker in self.workers):
                logs = "\n".join(worker.log_text()[-1500:] for worker in self.workers[-4:])
                raise AssertionError(
                    f"waited in vain ({seconds:g} s at most) for {what}; {self.left()} messages are left\n{logs}"
                )
            time.sleep(every)


class Worker:
    """A process `python -m worker`."""

    def __init__(self, site: Site, settings: dict[str, Any], log: Path, wrapper: tuple[str, ...]) -> None:
        self.health = f"http://{settings['listen']}"
        self._log = log
        own = {f"WORKER_{name.upper()}": str(value) for name, value in settings.items()}
        aws = {"AWS_ENDPOINT_URL": site.url, "AWS_DEFAULT_REGION": REGION, "AWS_CONFIG_FILE": os.devnull, **_KEYS}
        env = {"PATH": os.defpath, "PYTHONPATH": str(ROOT), "AWS_EC2_METADATA_DISABLED": "true", **aws, **own}
        with log.open("wb") as output:
            argv = [*wrapper, sys.executable, "-m", "worker"]
            self.process = subprocess.Popen(
                argv, env=env, stdout=output, stderr=subprocess.STDOUT, cwd=site.directory, start_new_session=True
            )

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def kill(self, number: signal.Signals = signal.SIGKILL, seconds: float = 30.0) -> int:
        """Send the signal and wait for the exit; return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(seconds)

    def status(self, path: str) -> int:
        """Return the status of a probe; 0 without an answer."""
        try:
            return httpx.get(f"{self.health}{path}", timeout=5.0, trust_env=False).status_code
        except httpx.TransportError:
            return 0

    def metric(self, line: str) -> float:
        """Return a metric's value, by its exposed name and labels; 0.0 if it is missing."""
        text = httpx.get(f"{self.health}/metrics", timeout=60.0, trust_env=False).text
        return next((float(found.rpartition(" ")[2]) for found in text.splitlines() if found.startswith(f"{line} ")), 0.0)

    def log_text(self) -> str:
        return self._log.read_text(errors="replace")

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the log lines with that event."""
        lines = [json.loads(line) for line in self.log_text().splitlines() if line.startswith("{") and line.endswith("}")]
        return [line for line in lines if line["event"] == name]


def free_port() -> int:
    """Return a new port of 127.0.0.1 that no kernel-chosen socket takes before a process listens on it."""
    return next(port for port in _PORTS if ports.is_free("127.0.0.1", port))


@contextlib.contextmanager
def running_site(directory: Path, **options: Any) -> Iterator[Site]:
    """Yield a site with a separate moto; its processes end with the context."""
    directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    env = {"PATH": os.defpath, "PYTHONPATH": str(ROOT), "HOME": str(directory)}
    argv = [sys.executable, "-m", "twin.aws.moto_process", "-H", "127.0.0.1", "-p", str(port)]
    with (directory / "moto.log").open("wb") as output:
        moto = subprocess.Popen(argv, env=env, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    site: Site | None = None
    try:
        _until_it_answers(url, moto)
        site = Site(url, directory, **options)
        yield site
    finally:
        for process in [*(worker.process for worker in (site.workers if site else [])), moto]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


def _until_it_answers(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            if httpx.get(f"{url}/moto-api/", trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        assert process.poll() is None, f"moto ended with {process.returncode}"
        assert time.monotonic() < deadline, f"moto does not answer within {_START_SECONDS} s"
        time.sleep(0.05)
