"""One inference of the model of `models`, over HTTP or gRPC, and what became of it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Literal

import httpx
import numpy as np
import tritonclient.grpc.aio as triton
from tritonclient.grpc import InferInput
from tritonclient.utils import InferenceServerException

from tests.system.serving.pods import Pod

Protocol = Literal["http", "grpc"]
PROTOCOLS: tuple[Protocol, ...] = ("http", "grpc")
OK = "ok"
DEADLINE_SECONDS = 60.0


@dataclass(frozen=True)
class Answer:
    """`code`: ok, an HTTP status, a gRPC code, or `reset` and `refused` for a connection that was lost or never made."""

    code: str
    message: str = ""


Send = Callable[[], Coroutine[Any, Any, Answer]]


@contextlib.asynccontextmanager
async def sender(protocol: Protocol, pod: Pod, model: str = "echo", *, keep_alive: bool = False) -> AsyncIterator[Send]:
    """Sends single inferences to the pod: gRPC on one connection, HTTP on one for each or, `keep_alive`, on idle ones.

    Connections are closed when the context ends. Nothing is tried twice.
    """
    making = _http(pod, model, keep_alive) if protocol == "http" else _grpc(pod, model)
    async with making as send:
        yield send


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

    # A channel of its own for each sender, and none of gRPC's own retries behind the back of the test.
    options = [("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1)]
    async with triton.InferenceServerClient(pod.grpc, channel_args=options) as client:
        yield send
