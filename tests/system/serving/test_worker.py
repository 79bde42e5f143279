"""Ten thousand messages through SQS (moto), a real Triton, and workers that are killed at random."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.serving import models
from tests.system.serving.models import Timing
from tests.system.serving.pods import Kubelet
from tests.worker.requests import echo, key
from tests.worker.site import Site, Worker, running_site

MESSAGES = 10_000
POISON = ("not json {", '{"model": "nobody", "inputs": [{"name": "IN", "datatype": "FP32", "shape": [1], "data": [0]}]}')
EACH_POISON = 20
WORKERS = 3
KILLS = 16
SAMPLE = 200
SEED = 20261121
SECONDS = 300.0
BACKLOG = 400
"""Messages in the queue at a time: moto counts all of them at each receive."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with running_site(tmp_path / "site", visibility_seconds=30, max_receives=5) as running:
        yield running


@pytest.mark.timeout(1800)
def test_of_ten_thousand_messages_each_is_answered_once_and_none_is_lost(
    site: Site, kubelet: Kubelet, repository: Path
) -> None:
    chance = random.Random(SEED)  # noqa: S311 - the same choices in every run
    models.write(repository, timing=Timing(batch=8, instances=1, queue=256))
    pod = kubelet.pod({"echo": 1}, repository).start().until_ready()
    bodies = [echo(number) for number in range(MESSAGES)] + list(POISON) * EACH_POISON
    order = list(range(len(bodies)))
    chance.shuffle(order)
    ids: dict[int, str] = {}
    workers: list[Worker] = []

    def start() -> None:
        workers.append(site.worker(f"ipv4:{pod.grpc}", concurrency=32, retry_seconds=1))

    def done() -> int:
        """Return the number of messages that have left the queue. Sends more whenever the queue is short."""
        left = site.left()
        if left < BACKLOG and len(ids) < len(order):
            batch = order[len(ids) : len(ids) + BACKLOG]
            ids.update(zip(batch, site.send([bodies[number] for number in batch]), strict=True))
            left += len(batch)
        return len(ids) - left

    for _ in range(WORKERS):
        start()
    endings = chance.sample([signal.SIGKILL] * (KILLS // 2) + [signal.SIGTERM] * (KILLS // 2), KILLS)
    moments = sorted(chance.sample(range(MESSAGES // 20, MESSAGES - MESSAGES // 20), KILLS))
    for moment, ending in zip(moments, endings, strict=True):
        site.until(lambda moment=moment: done() >= moment, f"{moment} messages done with", SECONDS, every=0.2)
        workers.pop(chance.randrange(len(workers))).kill(ending)
        start()
    site.until(lambda: done() == len(order), "an empty queue", SECONDS, every=0.2)

    good, poison = [ids[number] for number in range(MESSAGES)], {ids[number] for number in range(MESSAGES, len(bodies))}
    assert site.versions("results/") == {key(message): 1 for message in good}
    assert set(site.drain(site.dead)) == poison
    assert {name.removeprefix("failures/").removesuffix(".json") for name in site.versions("failures/")} == poison
    sample = chance.sample(range(MESSAGES), SAMPLE)
    answers = [site.document(key(good[number]))["outputs"][0]["data"] for number in sample]
    assert answers == [[number + 1.0] for number in sample]
