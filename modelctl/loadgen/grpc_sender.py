"""Send inference requests over gRPC, for `loadgen.run`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from tritonclient.grpc import InferInput
from tritonclient.grpc.aio import InferenceServerClient
from tritonclient.utils import InferenceServerException

from modelctl.loadgen.result import SHED
from modelctl.loadgen.runner import RequestFailed, Send

SHED_WORDS = ("Exceeds maximum queue size", "Request timeout expired")
"""Words in the server's errors that distinguish them from UNAVAILABLE of an unreachable server:
docs/facts/triton-server.md."""


@asynccontextmanager
async def grpc_sender(
    urls: Sequence[str],
    model: str,
    inputs: Sequence[InferInput],
    *,
    version: str | Callable[[], str] = "",
    deadline_seconds: float = 10.0,
    headers: Mapping[str, str] | None = None,
) -> AsyncIterator[Send]:
    """Yield a `Send` that calls `model` at each of `urls` (host:port) in turn with the same inputs.

    `version` is the requested version ("" = the server's choice); a function is called for each request. `headers` are sent
    with each: a gateway requires the model's name in one (docs/traffic.md). The tag of an answer is the version that gave
    it. A failure's code is gRPC's, without its prefix: UNAVAILABLE, NOT_FOUND, DEADLINE_EXCEEDED; or SHED.
    """
    if not urls:
        raise ValueError("a sender needs at least one address")
    requests = list(inputs)
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(InferenceServerClient(url)) for url in urls]

        async def send(number: int) -> str:
            wanted = version if isinstance(version, str) else version()
            try:
                answer = await clients[number % len(clients)].infer(
                    model, requests, model_version=wanted, client_timeout=deadline_seconds, headers=headers
                )
            except InferenceServerException as error:
                raise RequestFailed(failure_of(error)) from None
            return str(answer.get_response().model_version)

        yield send
        await asyncio.sleep(0)  # let cancelled calls finish before their channel closes


def failure_of(error: InferenceServerException) -> str:
    """Return the code of a failed request: SHED if the server's queue refused it, else gRPC's."""
    shed = any(words in (error.message() or "") for words in SHED_WORDS)
    return SHED if shed else failure_code(error)


def failure_code(error: InferenceServerException) -> str:
    """Return UNAVAILABLE for `StatusCode.UNAVAILABLE`; UNKNOWN when the client gives no code."""
    return (error.status() or "UNKNOWN").removeprefix("StatusCode.")
