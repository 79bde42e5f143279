"""Sequences over three real servers: each stays on its server, and reports an error if that server is gone."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as grpc
from hypothesis import given
from hypothesis import strategies as st

from examples.failures import CallFailed
from examples.sequence_client import Sequence, SequenceClient, SequenceLost, pod_of, ready_addresses
from examples.server import MODELS
from tests.system.serving.pods import Pod, running_kubelet

DEADLINE_SECONDS = 60.0
ADDRESSES = st.sets(st.integers(1, 250).map(lambda last: f"10.0.0.{last}:8001"), min_size=2, max_size=8)


@pytest.fixture(scope="module")
def pods(tmp_path_factory: pytest.TempPathFactory, triton_cache: Path) -> Iterator[list[Pod]]:
    repository = tmp_path_factory.mktemp("repository")
    shutil.copytree(MODELS / "running_sum", repository / "running_sum")
    config = repository / "running_sum" / "config.pbtxt"
    idle = "max_sequence_idle_microseconds: "
    assert f"{idle}5000000\n" in config.read_text()
    # No test here is about idle sequences, and a slow test must not lose one.
    config.write_text(config.read_text().replace(f"{idle}5000000\n", f"{idle}600000000\n"))
    with running_kubelet(tmp_path_factory.mktemp("node"), triton_cache) as kubelet:
        started = [kubelet.pod({"running_sum": 1}, repository).start() for _ in range(3)]
        yield [pod.until_ready() for pod in started]


def ids_on(address: str, addresses: list[str]) -> Iterator[int]:
    """Yield unused sequence ids that belong to this address."""
    return (number for number in _IDS if pod_of(number, addresses) == address)


_IDS = itertools.count(1)


async def add(sequence: Sequence, value: int, end: bool = False) -> int:
    answer = await sequence.send({"VALUE": np.array([[value]], dtype=np.int64)}, end)
    return int(answer.outputs["SUM"].item())


def requests_of(pods: list[Pod]) -> list[int]:
    counts = []
    for pod in pods:
        with grpc.InferenceServerClient(pod.grpc) as client:
            (statistics,) = client.get_inference_statistics("running_sum").model_stats
            counts.append(int(statistics.inference_stats.success.count))
    return counts


def test_interleaved_sequences_stay_on_their_servers(pods: list[Pod]) -> None:
    addresses = [pod.grpc for pod in pods]
    numbers = [next(ids_on(address, addresses)) for address in addresses for _ in range(3)]
    before = requests_of(pods)

    async def run() -> dict[int, list[int]]:
        async with SequenceClient(addresses, DEADLINE_SECONDS) as client:
            sequences = [client.begin("running_sum", number) for number in numbers]
            assert [s.address for s in sequences] == [address for address in addresses for _ in range(3)]
            sums: dict[int, list[int]] = {s.id: [] for s in sequences}
            for step in range(5):
                random.Random(step).shuffle(sequences)  # noqa: S311
                for sequence in sequences:
                    sums[sequence.id].append(await add(sequence, sequence.id, end=step == 4))
            return sums

    assert asyncio.run(run()) == {number: [number * step for step in range(1, 6)] for number in numbers}
    # A server first answers a request, then counts it.
    pods[0].until(lambda: sum(requests_of(pods)) >= sum(before) + 45, "45 counted answers", DEADLINE_SECONDS)
    assert [int(count) for count in np.subtract(requests_of(pods), before)] == [15, 15, 15]


def test_another_process_finds_the_server_of_a_sequence(pods: list[Pod]) -> None:
    addresses = [pod.grpc for pod in pods]
    number = next(ids_on(addresses[1], addresses))

    async def address_seen_by(order: list[str]) -> str:
        async with SequenceClient(order, DEADLINE_SECONDS) as client:
            return client.begin("running_sum", number).address

    assert asyncio.run(address_seen_by(addresses)) == asyncio.run(address_seen_by(addresses[::-1])) == addresses[1]


def test_a_sequence_whose_server_dies_is_lost_and_begins_again_elsewhere(pods: list[Pod]) -> None:
    addresses = [pod.grpc for pod in pods]
    dying = pods[0]
    number = next(ids_on(dying.grpc, addresses))
    other = next(ids_on(addresses[1], addresses))

    async def run() -> tuple[str, list[int]]:
        async with SequenceClient(addresses, DEADLINE_SECONDS) as client:
            sequence, unharmed = client.begin("running_sum", number), client.begin("running_sum", other)
            sums = [await add(sequence, 40), await add(unharmed, 1)]
            os.kill(dying.pid, signal.SIGKILL)
            with pytest.raises(SequenceLost) as lost:
                await add(sequence, 2)
            with pytest.raises(SequenceLost, match="is over"):
                await add(sequence, 2)
            client.use(addresses[1:])
            again = client.begin("running_sum", number)
            assert again.address in addresses[1:]
            sums += [await add(unharmed, 1, end=True), await add(again, 40), await add(again, 2, end=True)]
            return str(lost.value), sums

    said, sums = asyncio.run(run())

    assert said.startswith(f"sequence {number} was on {dying.grpc}, which failed (")
    assert said.endswith("its state is gone: begin the sequence again")
    assert sums == [40, 1, 2, 40, 42]
    dying.until(lambda: dying.restarts == 1 and dying.ready, "the killed server to be back")


def test_a_server_that_came_back_without_the_state_does_not_go_on_with_the_sequence(pods: list[Pod]) -> None:
    """A restart, an idle timeout and a misrouted request all lose the sequence's state."""
    pod = pods[2]

    async def run() -> str:
        async with SequenceClient([pod.grpc], DEADLINE_SECONDS) as client:
            sequence = client.begin("running_sum", next(_IDS))
            assert await add(sequence, 1) == 1
            with grpc.InferenceServerClient(pod.grpc) as other:  # ends it without the client's knowledge
                value = grpc.InferInput("VALUE", [1, 1], "INT64")
                value.set_data_from_numpy(np.array([[0]], dtype=np.int64))
                other.infer("running_sum", [value], sequence_id=sequence.id, sequence_end=True)
            with pytest.raises(SequenceLost) as lost:
                await add(sequence, 1)
            return str(lost.value)

    assert "must specify the START flag" in asyncio.run(run())


def test_a_request_that_is_refused_unread_does_not_end_the_sequence(pods: list[Pod]) -> None:
    async def run() -> int:
        async with SequenceClient([pods[1].grpc], DEADLINE_SECONDS) as client:
            sequence = client.begin("running_sum", next(_IDS))
            await add(sequence, 40)
            with pytest.raises(CallFailed) as refused:
                await sequence.send({"VALUE": np.array([[1, 2]], dtype=np.int64)})
            assert refused.value.code == "INVALID_ARGUMENT"
            return await add(sequence, 2, end=True)

    assert asyncio.run(run()) == 42


def test_an_unknown_model_is_no_lost_sequence(pods: list[Pod]) -> None:
    async def run() -> str:
        async with SequenceClient([pods[1].grpc], DEADLINE_SECONDS) as client:
            with pytest.raises(CallFailed) as failed:
                await add(client.begin("absent"), 1)
            return failed.value.code

    assert asyncio.run(run()) == "NOT_FOUND"


def test_the_addresses_of_a_name_are_its_ready_pods() -> None:
    assert "127.0.0.1:8001" in asyncio.run(ready_addresses("localhost", 8001))
    with pytest.raises(CallFailed) as failed:
        asyncio.run(ready_addresses("no-such-name.invalid", 8001))
    assert (failed.value.code, failed.value.message) == ("UNAVAILABLE", "no-such-name.invalid has no address")


@given(ADDRESSES, st.lists(st.integers(1, 2**63 - 1), min_size=1, max_size=50))
def test_a_pod_that_goes_moves_only_its_own_sequences(addresses: set[str], sequences: list[int]) -> None:
    gone = min(addresses)
    for sequence in sequences:
        before, after = pod_of(sequence, addresses), pod_of(sequence, addresses - {gone})
        assert after == before or before == gone


def test_sequences_are_spread_over_all_pods() -> None:
    addresses = [f"10.0.0.{last}:8001" for last in range(1, 5)]
    shares = [sum(pod_of(sequence, addresses) == address for sequence in range(4000)) for address in addresses]
    assert shares == [981, 1032, 1000, 987]
