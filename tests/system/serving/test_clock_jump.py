"""The machine's wall clock jumps: accepted requests are answered once, and no program waits for the clock."""

from __future__ import annotations

import asyncio
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.system.serving import models
from tests.system.serving.client import OK, PROTOCOLS, Protocol, sender
from tests.system.serving.models import Timing
from tests.system.serving.pods import Kubelet
from tests.waiting import until
from tests.worker.requests import echo, key
from tests.worker.site import running_site

JUMPS = (3600, -7200, 0)
"""Offsets from the machine's clock in seconds, one after the other: an hour ahead, two hours behind, correct again."""
BETWEEN = 150
"""Answers between two jumps."""
MESSAGES = 300
SLACK_SECONDS = 60.0
HANDS, VISIBILITY_SECONDS = 16, 4


class Clock:
    """The wall clock of each process that starts through `command`."""

    def __init__(self, folder: Path) -> None:
        self._offset, library = folder / "offset", folder / "jumping_clock.so"
        self.set(0)
        source = Path(__file__).with_name("jumping_clock.c")
        # On a machine without a C compiler this fails and names the compiler.
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, source, "-ldl"], check=True)
        self.command = ("env", f"LD_PRELOAD={library}", f"CLOCK_OFFSET={self._offset}")

    def set(self, seconds: int) -> None:
        """Set the offset from the machine's clock in seconds, from now on."""
        with self._offset.open("r+b" if self._offset.exists() else "wb") as file:
            file.write(struct.pack("q", seconds))


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    return Clock(tmp_path)


async def jump(clock: Clock, answered: Callable[[], int], seen: Callable[[], float]) -> None:
    """Set the clock to each of the jumps, and check that the server sees it. Some answers come before and after each jump.

    `seen`: the latest time that the server has seen; it never goes back with the server's clock.
    """
    latest = time.time()
    for seconds in (*JUMPS, None):
        enough = answered() + BETWEEN
        await until(lambda enough=enough: answered() >= enough, f"{BETWEEN} more answers")
        if seconds is not None:
            clock.set(seconds)
            before = answered()
            await until(lambda before=before: answered() > before + 8, "an answer after the jump")
            latest = max(latest, time.time() + seconds)
            assert abs(seen() - latest) < SLACK_SECONDS


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_request_is_lost_or_waits_when_the_clock_of_a_server_jumps(
    protocol: Protocol, clock: Clock, kubelet: Kubelet, repository: Path
) -> None:
    models.write(repository, timing=Timing(seconds=0.01, batch=4, instances=2, queue=64, delay_us=2000))
    pod = kubelet.pod({"echo": 1}, repository, wrapper=clock.command).start().until_ready()
    ends: Counter[str] = Counter()
    longest = 0.0

    def last_answer() -> float:
        """Return the time of the server's last answer, in seconds of its wall clock."""
        (stats,) = httpx.get(f"{pod.http}/v2/models/echo/stats", trust_env=False).json()["model_stats"]
        return float(stats["last_inference"]) / 1000

    async def scenario() -> None:
        over = False

        async def ask() -> None:
            nonlocal longest
            async with sender(protocol, pod, keep_alive=True) as send:
                while not over:
                    begun = time.monotonic()
                    answer = await send()
                    longest = max(longest, time.monotonic() - begun)
                    ends[answer.code if answer.code == OK else f"{answer.code}: {answer.message}"] += 1

        clients = asyncio.gather(*(ask() for _ in range(8)))
        await jump(clock, lambda: ends[OK], last_answer)
        over = True
        await clients

    asyncio.run(scenario())
    assert ends.keys() == {OK}, ends
    assert longest < 10, "nobody waited until the clock was right again"
    assert pod.ready and pod.restarts == 0


def test_messages_are_answered_once_when_the_clock_of_workers_and_servers_jumps(
    clock: Clock, kubelet: Kubelet, repository: Path, tmp_path: Path
) -> None:
    models.write(repository, timing=Timing(seconds=0.01, batch=4, instances=2, queue=64))
    pod = kubelet.pod({"echo": 1}, repository, wrapper=clock.command).start().until_ready()
    with running_site(tmp_path / "site", visibility_seconds=30) as site:
        site.worker(f"ipv4:{pod.grpc}", wrapper=clock.command)
        ids = []
        for part, seconds in enumerate((*JUMPS, 0)):
            ids += site.send([echo(number) for number in range(part * MESSAGES, (part + 1) * MESSAGES)])
            # While it has some in hand.
            site.until(lambda part=part: site.left() < MESSAGES - 50, "the worker to be at the messages")
            clock.set(seconds)
            site.until(lambda: site.left() == 0, "an empty queue")
        assert site.versions("results/") == {key(message): 1 for message in ids}
        assert site.drain(site.dead) == {}
        answers = [site.document(key(message))["outputs"][0]["data"] for message in ids]
        assert answers == [[number + 1.0] for number in range(len(ids))]


def test_a_worker_whose_clock_goes_back_keeps_the_messages_that_it_has(
    clock: Clock, kubelet: Kubelet, repository: Path, tmp_path: Path
) -> None:
    """It holds as many as it may at a time. So a message whose visibility timeout runs out stays visible in the queue."""
    gate = tmp_path / "open"
    models.write(repository, timing=Timing(gate=gate, batch=4, instances=2, queue=64))
    pod = kubelet.pod({"echo": 1}, repository).start().until_ready()
    with running_site(tmp_path / "site", visibility_seconds=VISIBILITY_SECONDS) as site:

        def waiting() -> int:
            name = "ApproximateNumberOfMessages"
            return int(site.sqs.get_queue_attributes(QueueUrl=site.queue, AttributeNames=[name])["Attributes"][name])

        site.worker(f"ipv4:{pod.grpc}", wrapper=clock.command, concurrency=HANDS, request_seconds=60)
        ids = site.send([echo(number) for number in range(HANDS)])
        site.until(lambda: models.reached(gate) and waiting() == 0, "the worker to have all messages")
        clock.set(-7200)
        deadline = time.monotonic() + 2 * VISIBILITY_SECONDS
        while time.monotonic() < deadline:
            assert waiting() == 0, "nobody else gets a message"
            time.sleep(0.1)
        gate.touch()
        site.until(lambda: site.left() == 0, "an empty queue")
        assert site.versions("results/") == {key(message): 1 for message in ids}
