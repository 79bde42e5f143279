"""The balanced gRPC client on three real servers: even shares, versions, and a server that dies."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as grpc

from examples.grpc_client import BalancedClient
from examples.retries import RetryPolicy
from examples.served_versions import Served, ServedVersions
from examples.tensors import Answer
from tests.system.serving import models
from tests.system.serving.pods import Kubelet, Pod, running_kubelet

ONE = {"IN": np.ones((1, 1), np.float32)}
PATIENT = RetryPolicy(deadline_seconds=60)
SECONDS = 60.0


def target(pods: list[Pod]) -> str:
    return "ipv4:" + ",".join(pod.grpc for pod in pods)


def served(pods: list[Pod], version: str = "1") -> list[int]:
    """Return the number of requests that each server has answered."""
    counts = []
    for pod in pods:
        with grpc.InferenceServerClient(pod.grpc) as client:
            (statistics,) = client.get_inference_statistics("echo", version).model_stats
            counts.append(int(statistics.inference_stats.success.count))
    return counts


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, triton_cache: Path) -> Iterator[Kubelet]:
    with running_kubelet(tmp_path_factory.mktemp("node"), triton_cache) as kubelet:
        yield kubelet


@pytest.fixture(scope="module")
def pods(node: Kubelet, tmp_path_factory: pytest.TempPathFactory) -> list[Pod]:
    """Return three servers with two versions of one model."""
    repository = tmp_path_factory.mktemp("repository")
    models.write(repository, version=1)
    models.write(repository, version=2)
    started = [node.pod({"echo": 1}, repository).start() for _ in range(3)]
    return [pod.until_ready() for pod in started]


async def until_connected_to_all(client: BalancedClient, pods: list[Pod]) -> int:
    """Return the number of requests until the client is connected to all servers: round_robin uses only those."""
    before, deadline, sent = served(pods), time.monotonic() + SECONDS, 0
    while any(now == then for now, then in zip(served(pods), before, strict=True)):
        assert time.monotonic() < deadline, f"waited {SECONDS} s for an answer of each server: {before} -> {served(pods)}"
        await client.infer("echo", ONE)
        sent += 1
    return sent


def served_at_last(pods: list[Pod], total: int) -> list[int]:
    """Return `served` after the servers have counted `total` requests: a server first answers, then counts."""
    pods[0].until(lambda: sum(served(pods)) >= total, f"{total} counted answers", SECONDS)
    return served(pods)


def test_requests_are_spread_evenly_over_the_servers(pods: list[Pod]) -> None:
    async def send() -> list[int]:
        versions = ServedVersions({"echo": Served(stable=1)})
        async with BalancedClient(target(pods), versions, PATIENT) as client:
            begun = sum(served(pods))
            before = served_at_last(pods, begun + await until_connected_to_all(client, pods))
            for _ in range(90):
                await client.infer("echo", ONE)
            return [int(count) for count in np.subtract(served_at_last(pods, sum(before) + 90), before)]

    assert asyncio.run(send()) == [30, 30, 30]


def test_a_flip_of_the_served_version_takes_effect_with_the_next_request(pods: list[Pod]) -> None:
    async def send() -> list[tuple[str, float]]:
        versions = ServedVersions({"echo": Served(stable=1)})
        answers = []
        async with BalancedClient(target(pods), versions, PATIENT) as client:
            for flipped in ('{"stable": 1}', '{"stable": 2}', '{"stable": 1}'):
                versions.update({"echo": flipped})
                for _ in range(6):
                    answer = await client.infer("echo", ONE)
                    answers.append((answer.version, float(answer.outputs["OUT"][0][0])))
        return answers

    first, second = ("1", 2.0), ("2", 3.0)  # the model adds its version to its input
    assert asyncio.run(send()) == [first] * 6 + [second] * 6 + [first] * 6


def test_no_call_fails_when_a_server_is_killed(pods: list[Pod]) -> None:
    killed = pods[-1]

    async def send() -> list[Answer]:
        answers: list[Answer] = []
        versions = ServedVersions({"echo": Served(stable=1)})

        async def worker(client: BalancedClient, count: int) -> None:
            for _ in range(count):
                answers.append(await client.infer("echo", ONE))

        async def kill_in_the_middle() -> None:
            while len(answers) < 100:
                await asyncio.sleep(0)
            os.kill(killed.pid, signal.SIGKILL)

        async with BalancedClient(target(pods), versions, PATIENT) as client:
            await until_connected_to_all(client, pods)
            async with asyncio.TaskGroup() as tasks:
                for _ in range(5):
                    tasks.create_task(worker(client, 60))
                tasks.create_task(kill_in_the_middle())
        return answers

    answers = asyncio.run(send())

    assert [float(answer.outputs["OUT"][0][0]) for answer in answers] == [2.0] * 300
    killed.until(lambda: killed.restarts == 1 and killed.ready, "the killed server to be back")
