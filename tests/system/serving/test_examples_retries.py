"""The gRPC and the HTTP client when a real server is full, slow or missing: they limit retries and respect deadlines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import httpx
import numpy as np
import pytest

from examples.failures import CallFailed
from examples.grpc_client import BalancedClient
from examples.http_client import HttpClient
from examples.retries import RetryPolicy
from examples.tensors import Answer, Arrays
from tests.system.serving.pods import METRICS, Pod, running_kubelet
from tests.waiting import until

ONE = {"IN": np.ones((1, 1), np.float32)}
WAIT_SECONDS = 60.0
FAST = {"first_wait_seconds": 0.01, "longest_wait_seconds": 0.02}
CONFIG = """
backend: "python"
max_batch_size: 1
input [ {{ name: "IN" data_type: TYPE_FP32 dims: [ 1 ] }} ]
output [ {{ name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] }} ]
instance_group [ {{ kind: KIND_CPU count: 1 }} ]
dynamic_batching {{ default_queue_policy {{ timeout_action: REJECT max_queue_size: 1 }} }}
parameters {{ key: "folder" value {{ string_value: "{folder}" }} }}
"""
MODEL = '''
import json
import time
from pathlib import Path

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, arguments):
        self.folder = Path(json.loads(arguments["model_config"])["parameters"]["folder"]["string_value"])

    def execute(self, requests):
        """Answers as soon as the gate is open; after a minute at the latest, whatever became of the test."""
        (self.folder / "executing").touch()
        deadline = time.monotonic() + 60
        while not (self.folder / "open").exists() and time.monotonic() < deadline:
            time.sleep(0.005)
        (self.folder / "executing").unlink(missing_ok=True)
        tensors = [pb_utils.get_input_tensor_by_name(request, "IN").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", tensor)]) for tensor in tensors]
'''


class Client(Protocol):
    async def infer(self, model: str, arrays: Arrays) -> Answer: ...


@dataclass(frozen=True)
class Gate:
    """A server whose only instance waits for a file, and whose queue holds one request."""

    pod: Pod
    folder: Path

    def open(self) -> None:
        (self.folder / "open").touch()

    async def fill(self, client: Client) -> list[asyncio.Task[Answer]]:
        """Send one request for execution and one for the queue, so the server rejects the next one."""
        executing = asyncio.create_task(client.infer("gated", ONE))
        await until(lambda: (self.folder / "executing").exists(), "a request to be in execution")
        queued = asyncio.create_task(client.infer("gated", ONE))
        await until(lambda: self.pending() == 1, "a request to be in the queue")
        return [executing, queued]

    def pending(self) -> int:
        url = f"http://{self.pod.address}:{METRICS}/metrics"
        lines = httpx.get(url, timeout=30, trust_env=False).text.splitlines()
        return int(next(line for line in lines if line.startswith("nv_inference_pending_request_count{")).split()[-1])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, triton_cache: Path) -> Iterator[Gate]:
    folder = tmp_path_factory.mktemp("gate")
    version = tmp_path_factory.mktemp("repository") / "gated" / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(MODEL)
    (version.parent / "config.pbtxt").write_text(CONFIG.format(folder=folder))
    with running_kubelet(tmp_path_factory.mktemp("node"), triton_cache) as kubelet:
        yield Gate(kubelet.pod({"gated": 1}, version.parents[1]).start().until_ready(), folder)


@pytest.fixture
def gate(server: Gate) -> Iterator[Gate]:
    """Return the server with a closed gate and without requests. Afterwards, release all waiting requests."""
    for file in server.folder.iterdir():
        file.unlink()
    yield server
    server.open()
    idle = "nothing to be queued or in execution"
    server.pod.until(lambda: server.pending() == 0 and not (server.folder / "executing").exists(), idle)


@pytest.fixture(params=["grpc", "http"])
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def client(protocol: str, address: str, policy: RetryPolicy) -> AsyncIterator[Client]:
    if protocol == "grpc":
        async with BalancedClient(f"ipv4:{address}:8001", policy=policy) as balanced:
            yield balanced
    else:
        async with HttpClient(f"http://{address}:8000", policy) as http:
            yield http


@dataclass(frozen=True)
class Failure:
    """The error of a call, and its duration."""

    code: str
    attempts: int
    seconds: float


async def failure(client: Client) -> Failure:
    begun = time.monotonic()
    with pytest.raises(CallFailed) as failed:
        await client.infer("gated", ONE)
    return Failure(failed.value.code, failed.value.attempts, time.monotonic() - begun)


def test_a_full_queue_is_tried_again_as_often_as_the_policy_says(gate: Gate, protocol: str) -> None:
    async def run() -> tuple[Failure, list[Answer]]:
        async with (
            client(protocol, gate.pod.address, RetryPolicy(WAIT_SECONDS)) as patient,
            client(protocol, gate.pod.address, RetryPolicy(WAIT_SECONDS, attempts=4, **FAST)) as refused,
        ):
            waiting = await gate.fill(patient)
            failed = await failure(refused)
            gate.open()
            return failed, await asyncio.gather(*waiting)

    failed, answers = asyncio.run(run())

    assert (failed.code, failed.attempts) == ("UNAVAILABLE", 4)
    assert [(float(answer.outputs["OUT"][0][0]), answer.attempts) for answer in answers] == [(1.0, 1), (1.0, 1)]


def test_a_retry_succeeds_as_soon_as_there_is_room(gate: Gate, protocol: str) -> None:
    async def run() -> tuple[Answer, int]:
        async with (
            client(protocol, gate.pod.address, RetryPolicy(WAIT_SECONDS)) as patient,
            client(protocol, gate.pod.address, RetryPolicy(WAIT_SECONDS, attempts=10_000, **FAST)) as persistent,
        ):
            waiting = await gate.fill(patient)
            rejected = await failure_of_one(gate, protocol)
            third = asyncio.create_task(persistent.infer("gated", ONE))
            gate.open()
            await asyncio.gather(*waiting)
            return await third, rejected

    answer, rejected = asyncio.run(run())

    assert rejected == 1
    assert float(answer.outputs["OUT"][0][0]) == 1.0


async def failure_of_one(gate: Gate, protocol: str) -> int:
    """With a full queue, a client with one attempt fails once."""
    async with client(protocol, gate.pod.address, RetryPolicy(WAIT_SECONDS, attempts=1)) as once:
        return (await failure(once)).attempts


def test_retries_live_inside_the_deadline(gate: Gate, protocol: str) -> None:
    async def run() -> Failure:
        async with (
            client(protocol, gate.pod.address, RetryPolicy(WAIT_SECONDS)) as patient,
            # Time for a second attempt, even if the first one has to wait for its connection.
            client(protocol, gate.pod.address, RetryPolicy(5.0, attempts=1_000_000, **FAST)) as hurried,
        ):
            waiting = await gate.fill(patient)
            failed = await failure(hurried)
            gate.open()
            await asyncio.gather(*waiting)
            return failed

    failed = asyncio.run(run())

    assert failed.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED")  # the deadline may end the last attempt
    assert 2 <= failed.attempts < 1_000_000
    assert failed.seconds < WAIT_SECONDS / 2


def test_no_attempt_begins_after_the_deadline() -> None:
    left = []

    async def refuse(seconds: float) -> None:
        left.append(seconds)
        raise CallFailed("UNAVAILABLE", "full")

    with pytest.raises(CallFailed) as failed:
        asyncio.run(RetryPolicy(0.3, attempts=500, **FAST).call(refuse))

    assert failed.value.attempts == len(left)
    assert min(left) > 0


def test_no_attempt_begins_when_a_busy_event_loop_ends_the_wait_after_the_deadline() -> None:
    left = []

    async def refuse(seconds: float) -> None:
        left.append(seconds)
        asyncio.get_running_loop().call_soon(time.sleep, 0.4)
        raise CallFailed("UNAVAILABLE", "full")

    with pytest.raises(CallFailed) as failed:
        asyncio.run(RetryPolicy(0.3, attempts=500, **FAST).call(refuse))

    assert (failed.value.code, failed.value.message, failed.value.attempts) == ("UNAVAILABLE", "full", 1)
    assert len(left) == 1


def test_a_deadline_that_passes_is_not_tried_again(gate: Gate, protocol: str) -> None:
    async def run() -> Failure:
        async with client(protocol, gate.pod.address, RetryPolicy(0.5, attempts=1_000, **FAST)) as hurried:
            failed = await failure(hurried)  # in execution, behind the closed gate
            gate.open()
            return failed

    failed = asyncio.run(run())

    assert (failed.code, failed.attempts) == ("DEADLINE_EXCEEDED", 1)
    assert 0.5 <= failed.seconds < WAIT_SECONDS / 2


@pytest.mark.parametrize(
    ("model", "arrays", "code"),
    [
        ("absent", ONE, "NOT_FOUND"),
        ("gated", {"IN": np.ones((1, 2), np.float32)}, "INVALID_ARGUMENT"),
        ("gated", {"IN": np.ones((1, 1), np.float64)}, "INVALID_ARGUMENT"),
        ("gated", {"UNKNOWN": np.ones((1, 1), np.float32)}, "INVALID_ARGUMENT"),
    ],
    ids=["unknown model", "shape", "type", "name"],
)
def test_a_mistake_of_the_caller_is_not_tried_again(
    gate: Gate, protocol: str, model: str, arrays: Arrays, code: str
) -> None:
    async def run() -> CallFailed:
        async with client(protocol, gate.pod.address, RetryPolicy(WAIT_SECONDS, attempts=5, **FAST)) as caller:
            with pytest.raises(CallFailed) as failed:
                await caller.infer(model, arrays)
            return failed.value

    failed = asyncio.run(run())

    assert (failed.code, failed.attempts) == (code, 1)


def test_a_server_that_is_not_there_is_unavailable(protocol: str) -> None:
    async def run() -> CallFailed:
        async with client(protocol, "127.255.255.254", RetryPolicy(WAIT_SECONDS, attempts=3, **FAST)) as lost:
            with pytest.raises(CallFailed) as failed:
                await lost.infer("gated", ONE)
            return failed.value

    failed = asyncio.run(run())

    assert (failed.code, failed.attempts) == ("UNAVAILABLE", 3)
