"""Inferences of the model of `models`, over HTTP or gRPC, and their outcomes."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Literal

import httpx
import numpy as np
import tritonclient.grpc.aio as triton
from tritonclient.grpc import InferInput
from tritonclient.utils import InferenceServerException

from tests.system.serving.pods import METRICS, Pod

Protocol = Literal["http", "grpc"]
PROTOCOLS: tuple[Protocol, ...] = ("http", "grpc")
OK = "ok"
DEADLINE_SECONDS = 60.0


@dataclass(frozen=True)
class Answer:
    """`code`: ok, an HTTP status, a gRPC code, or `reset` and `refused` for a lost or refused connection."""

    code: str
    message: str = ""


Send = Callable[[], Coroutine[Any, Any, Answer]]


@contextlib.asynccontextmanager
async def sender(protocol: Protocol, pod: Pod, model: str = "echo", *, keep_alive: bool = False) -> AsyncIterator[Send]:
    """Yield a sender of inferences to the pod. gRPC uses one connection, HTTP one for each (idle ones if `keep_alive`).

    Closes connections at the end of the context. Never retries.
    """
    making = _http(pod, model, keep_alive) if protocol == "http" else _grpc(pod, model)
    async with making as send:
        yield send


async def burst(pod: Pod, send: Send, number: int, instances: int = 1) -> list[asyncio.Task[Answer]]:
    """Send this number of requests at once. When this returns, the server has received all of them."""
    tasks = [asyncio.create_task(send()) for _ in range(number)]
    deadline = asyncio.get_running_loop().time() + 30
    # The server's count of pending requests includes neither requests in execution nor requests that a full queue rejected.
    while await _pending(pod) + sum(task.done() for task in tasks) < number - instances:
        assert asyncio.get_running_loop().time() < deadline, f"waited 30 s in vain for {number} requests to arrive"
        await asyncio.sleep(0.02)
    return tasks


async def _pending(pod: Pod) -> int:
    """Return the number of requests in the server's queue."""
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        answer = await client.get(f"http://{pod.address}:{METRICS}/metrics")
    return sum(
        int(value) for value in re.findall(r"^nv_inference_pending_request_count\{.*\} (\d+)$", answer.text, re.MULTILINE)
    )


@contextlib.asynccontextmanager
async def _http(pod: Pod, model: str, keep_alive: bool) -> AsyncIterator[Send]:
    url = f"{pod.http}/v2/models/{model}/infer"
    body = {"inputs": [{"name": "IN", "shape": [1, 1], "datatype": "FP32", "data": [1.0]}]}
    headers = {} if keep_alive else {"Connection": "close"}
    limits = httpx.Limits(max_connections=None, keepalive_expiry=None)

    async def send() -> Answer:
        try:
            answer = await client.post(url, json=body, headers=headers)
        except httpx.ConnectError as error:
            return Answer("refused", str(error))
        except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError) as error:
            return Answer("reset", str(error))
        if answer.status_code != 200:
            return Answer(str(answer.status_code), answer.json().get("error", ""))
        return Answer(OK)

    async with httpx.AsyncClient(limits=limits, timeout=DEADLINE_SECONDS, trust_env=False) as client:
        yield send


@contextlib.asynccontextmanager
async def _grpc(pod: Pod, model: str) -> AsyncIterator[Send]:
    tensor = InferInput("IN", [1, 1], "FP32")
    tensor.set_data_from_numpy(np.ones((1, 1), np.float32))

    async def send() -> Answer:
        try:
            await client.infer(model, [tensor], client_timeout=DEADLINE_SECONDS)
        except InferenceServerException as error:
            return Answer((error.status() or "").removeprefix("StatusCode."), error.message())
        return Answer(OK)

    # Each sender has a separate channel, without gRPC's own hidden retries.
    options = [("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1)]
    async with triton.InferenceServerClient(pod.grpc, channel_args=options) as client:
        yield send
