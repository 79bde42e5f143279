"""The worker's choice of service for a model, and the next one if it lacks the model."""

import asyncio
from typing import Any

import grpc
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from worker import triton
from worker.failures import AttemptFailed, Unavailable
from worker.message import InferenceRequest

A, B, ELSE = "dns:///a:8001", "dns:///b:8001", "dns:///else:8001"


def asked(monkeypatch: pytest.MonkeyPatch, model: str, answers: dict[str, str]) -> list[str]:
    """Return the services called for a model; each has a status as its answer, or "" for a result."""
    found: list[str] = []

    class Client:
        def __init__(self, url: str, **_: Any) -> None:
            self.url = url

        async def infer(self, *_: Any, **__: Any) -> str:
            found.append(self.url)
            if answers[self.url]:
                raise InferenceServerException("no", status=f"StatusCode.{answers[self.url]}")
            return self.url

        async def close(self) -> None:
            found.append(f"closed {self.url}")

    monkeypatch.setattr(triton, "InferenceServerClient", Client)

    async def ask() -> None:
        service = triton.Triton(ELSE, 1, {"classify": [A, B]})
        try:
            await service.infer(
                InferenceRequest.model_construct(model=model, outputs=(), version=None, parameters={}), [], "m"
            )
        finally:
            await service.close()

    try:
        asyncio.run(ask())
    except (AttemptFailed, Unavailable) as failure:
        found.append(type(failure).__name__)
    closed = [f"closed {url}" for url in (ELSE, A, B)]
    assert [line for line in found if line.startswith("closed")] == closed
    return [line for line in found if line not in closed]


@pytest.mark.parametrize(
    ("model", "answers", "expected"),
    [
        ("other", {ELSE: ""}, [ELSE]),
        ("classify", {A: "", B: ""}, [A]),
        ("classify", {A: "NOT_FOUND", B: ""}, [A, B]),
        ("classify", {A: "NOT_FOUND", B: "NOT_FOUND"}, [A, B, "AttemptFailed"]),
        ("classify", {A: "UNAVAILABLE", B: ""}, [A, "Unavailable"]),
        ("classify", {A: "INVALID_ARGUMENT", B: ""}, [A, "AttemptFailed"]),
    ],
)
def test_the_next_service_is_asked_only_where_the_one_before_has_not_the_model(
    monkeypatch: pytest.MonkeyPatch, model: str, answers: dict[str, str], expected: list[str]
) -> None:
    assert asked(monkeypatch, model, answers) == expected


def _answered(size: int) -> Any:
    """Call a server whose answer has `size` bytes as a message."""

    class Server(service_pb2_grpc.GRPCInferenceServiceServicer):
        async def ModelInfer(self, request: Any, context: Any) -> Any:
            answer = service_pb2.ModelInferResponse(raw_output_contents=[b"x" * (size - 10)])
            answer.raw_output_contents[0] += b"x" * (size - answer.ByteSize())
            assert answer.ByteSize() == size
            return answer

    async def ask() -> Any:
        server = grpc.aio.server(options=[("grpc.max_send_message_length", -1)])
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(Server(), server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        service = triton.Triton(f"127.0.0.1:{port}", 60)
        request = InferenceRequest.model_construct(model="m", outputs=(), version=None, parameters={})
        try:
            return await service.infer(request, [], "m")
        finally:
            await service.close()
            await server.stop(None)

    return asyncio.run(ask())


def test_the_largest_answer_is_taken_and_one_byte_more_fails_its_message_alone() -> None:
    largest = 64 * 1024**2
    assert _answered(largest).get_response().ByteSize() == largest
    with pytest.raises(AttemptFailed, match=r"^rejected: the answer has more than 67108864 bytes$") as failure:
        _answered(largest + 1)
    assert failure.value.final
