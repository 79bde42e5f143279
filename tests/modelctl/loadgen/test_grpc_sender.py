"""The sender against a real gRPC server with Triton's protocol."""

import asyncio

import grpc
import numpy as np
import pytest
from tritonclient.grpc import InferInput, service_pb2, service_pb2_grpc

from modelctl.loadgen import RequestFailed, Schedule, grpc_sender, run
from tests.modelctl.servers import serving

HALF = InferInput("X", [1, 2], "FP32")
HALF.set_data_from_numpy(np.array([[0.5, 0.5]], dtype=np.float32))


class Server(service_pb2_grpc.GRPCInferenceServiceServicer):
    """Answers with the requested version, or fails as configured; records its requests."""

    def __init__(self, code: grpc.StatusCode | None = None, version: str = "1", words: str = "as told") -> None:
        self.asked: list[tuple[str, str, bytes]] = []
        self._code, self._version, self._words = code, version, words

    async def ModelInfer(
        self, request: service_pb2.ModelInferRequest, context: grpc.aio.ServicerContext
    ) -> service_pb2.ModelInferResponse:
        self.asked.append((request.model_name, request.model_version, request.raw_input_contents[0]))
        if self._code == grpc.StatusCode.DEADLINE_EXCEEDED:
            await asyncio.sleep(3600)
        if self._code is not None:
            await context.abort(self._code, self._words)
        return service_pb2.ModelInferResponse(model_version=request.model_version or self._version)


def test_requests_go_round_the_addresses_and_are_tagged_with_the_version_that_answered() -> None:
    first, second = Server(version="1"), Server(version="2")

    async def check() -> None:
        async with serving(first) as a, serving(second) as b, grpc_sender([a, b], "m", [HALF]) as send:
            result = await run(Schedule.constant(1000, 0.011), send)
        assert (result.ok, result.errors, result.tags) == (11, {}, {"1": 6, "2": 5})

    asyncio.run(check())
    assert first.asked == [("m", "", np.float32([0.5, 0.5]).tobytes())] * 6


def test_the_version_may_change_from_request_to_request() -> None:
    server, versions = Server(), iter(["7", "8"])

    async def check() -> None:
        async with serving(server) as url, grpc_sender([url], "m", [HALF], version=lambda: next(versions)) as send:
            assert [await send(0), await send(1)] == ["7", "8"]

    asyncio.run(check())


@pytest.mark.parametrize(
    ("code", "deadline"),
    [
        (grpc.StatusCode.UNAVAILABLE, 30.0),
        (grpc.StatusCode.NOT_FOUND, 30.0),
        (grpc.StatusCode.DEADLINE_EXCEEDED, 0.5),
    ],
)
def test_a_failure_has_the_code_of_grpc(code: grpc.StatusCode, deadline: float) -> None:
    async def check() -> None:
        async with serving(Server(code)) as url, grpc_sender([url], "m", [HALF], deadline_seconds=deadline) as send:
            with pytest.raises(RequestFailed) as failure:
                await send(0)
            assert failure.value.code == code.name

    asyncio.run(check())


@pytest.mark.parametrize("words", ["Exceeds maximum queue size", "[request id: 7] Request timeout expired"])
def test_a_request_that_a_full_queue_refuses_is_shed(words: str) -> None:
    async def check() -> None:
        async with serving(Server(grpc.StatusCode.UNAVAILABLE, words=words)) as url, grpc_sender([url], "m", [HALF]) as send:
            with pytest.raises(RequestFailed) as failure:
                await send(0)
            assert failure.value.code == "SHED"

    asyncio.run(check())


def test_a_sender_needs_an_address() -> None:
    async def check() -> None:
        with pytest.raises(ValueError, match="a sender needs at least one address"):
            async with grpc_sender([], "m", [HALF]):
                pass

    asyncio.run(check())
