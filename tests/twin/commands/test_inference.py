"""One inference, against a real gRPC server that speaks Triton's protocol."""

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from spec.names import TRITON_GRPC_PORT
from twin.cluster.pod_addresses import Addresses, loopback
from twin.commands.inference import InferenceFailed, infer
from twin.host.home import TwinHome


class Triton(service_pb2_grpc.GRPCInferenceServiceServicer):
    """Refuses requests with these numbers, from 1 on, with a code; answers the others."""

    def __init__(self, refused: set[int], code: grpc.StatusCode) -> None:
        self.asked = 0
        self._refused, self._code = refused, code
        self._numbers = itertools.count(1)

    def ModelInfer(
        self, request: service_pb2.ModelInferRequest, context: grpc.ServicerContext
    ) -> service_pb2.ModelInferResponse:
        self.asked = next(self._numbers)
        if self.asked in self._refused:
            context.abort(self._code, "Request timeout expired")
        return service_pb2.ModelInferResponse(model_name=request.model_name, model_version="1")


@contextmanager
def serving(triton: Triton, directory: Path) -> Iterator[str]:
    addresses = Addresses(TwinHome(directory))  # holds the address while it exists
    pod_ip = addresses.allot("pod", [TRITON_GRPC_PORT])
    server = grpc.server(ThreadPoolExecutor(1))
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(triton, server)
    server.add_insecure_port(f"{loopback(pod_ip)}:{TRITON_GRPC_PORT}")
    server.start()
    try:
        yield pod_ip
    finally:
        server.stop(None).wait()


def test_a_request_that_found_no_room_is_asked_again(tmp_path: Path) -> None:
    triton = Triton({1, 3}, grpc.StatusCode.UNAVAILABLE)
    with serving(triton, tmp_path) as pod_ip:
        assert infer(pod_ip).version == "1"
    assert triton.asked == 4  # both requests, each twice


def test_an_error_of_the_model_is_told_at_once(tmp_path: Path) -> None:
    triton = Triton({1}, grpc.StatusCode.INTERNAL)
    with (
        serving(triton, tmp_path) as pod_ip,
        pytest.raises(InferenceFailed, match="did not answer: Request timeout expired"),
    ):
        infer(pod_ip)
    assert triton.asked == 1


def test_a_server_that_has_no_room_until_the_deadline_is_told(tmp_path: Path) -> None:
    triton = Triton(set(range(1000)), grpc.StatusCode.UNAVAILABLE)
    with (
        serving(triton, tmp_path) as pod_ip,
        pytest.raises(InferenceFailed, match="did not answer: Request timeout expired"),
    ):
        infer(pod_ip, deadline_seconds=0.3)
