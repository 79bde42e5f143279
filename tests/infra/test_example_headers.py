"""The example clients name the model and the sequence in the headers that the gateway reads (docs/traffic.md)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import grpc
import numpy as np
import pytest

from examples import gateway
from examples.failures import CallFailed
from examples.grpc_client import BalancedClient
from examples.retries import RetryPolicy
from examples.sequence_client import SequenceClient
from examples.stream_client import Prompt, generate
from infra.platform.gateway import MODEL_HEADER
from infra.serving.traffic_policy import SEQUENCE_HEADER

ONE = {"IN": np.ones((1, 1), np.float32)}


class Listener(grpc.GenericRpcHandler):
    """Refuses each call and records its metadata."""

    def __init__(self) -> None:
        self.metadata: list[dict[str, str]] = []

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        self.metadata.append({key: str(value) for key, value in details.invocation_metadata})
        return grpc.stream_stream_rpc_method_handler(_refuse)


async def _refuse(requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext) -> AsyncIterator[bytes]:
    """Refuse as a gateway without a route, but after the request: a client that still writes may get INTERNAL instead."""
    async for _ in requests:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED)
    yield b""


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[str, Listener]]:
    listener, server = Listener(), grpc.aio.server()
    server.add_generic_rpc_handlers((listener,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}", listener
    finally:
        await server.stop(None)


async def balanced(address: str) -> None:
    async with BalancedClient(f"ipv4:{address}", policy=RetryPolicy(deadline_seconds=20)) as client:
        await client.infer("classify", ONE)


async def sequence(address: str) -> None:
    async with SequenceClient([address], deadline_seconds=20) as client:
        await client.begin("classify", 42).send(ONE)


async def stream(address: str) -> None:
    async for _ in generate(address, {"1": Prompt("to be", 2)}, "classify", deadline_seconds=20):
        pass


def asked_with(call: Callable[[str], Awaitable[None]]) -> dict[str, str]:
    """Return the metadata of the only request that a client sends."""

    async def ask() -> dict[str, str]:
        async with listening() as (address, listener):
            with pytest.raises(CallFailed) as failed:
                await call(address)
            assert failed.value.code == "UNIMPLEMENTED"
        (metadata,) = listener.metadata
        return metadata

    return asyncio.run(ask())


@pytest.mark.parametrize("client", [balanced, sequence, stream])
def test_every_client_names_the_model(client: Callable[[str], Awaitable[None]]) -> None:
    assert asked_with(client)[MODEL_HEADER] == "classify"


def test_a_sequence_names_itself() -> None:
    assert asked_with(sequence)[SEQUENCE_HEADER] == "42"


def test_the_names_are_those_that_the_routes_look_for() -> None:
    assert (gateway.MODEL_HEADER, gateway.SEQUENCE_HEADER) == (MODEL_HEADER, SEQUENCE_HEADER)
