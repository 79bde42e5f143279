"""The cluster's DNS on this machine, queried by gRPC's resolver, which the worker uses."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import grpc.aio

from tests.worker.site import free_port
from twin.cluster.dns import ClusterDns, answer, question
from twin.cluster.kube_api import Object
from twin.cluster.services import ClusterServices

SERVICE = "/api/v1/namespaces/triton/services/triton-headless"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/triton/endpointslices"


class Api:
    """An API server with one headless Service; `ready` are the addresses of its ready pods."""

    def __init__(self, *ready: str) -> None:
        self.ready = list(ready)

    async def find(self, path: str) -> Object | None:
        return {} if path == SERVICE else None

    async def get(self, path: str, **params: str) -> Object:
        assert (path, params) == (SLICES, {"labelSelector": "kubernetes.io/service-name=triton-headless"})
        endpoints = [{"addresses": [address], "conditions": {"ready": True}} for address in self.ready]
        endpoints.append({"addresses": ["10.244.200.99"], "conditions": {"ready": False}})
        return {"items": [{"endpoints": endpoints}]}


def ask(api: Any, name: str, kind: int = 1) -> bytes:
    """Return the answer datagram."""

    async def exchange() -> bytes:
        port, loop = free_port(), asyncio.get_running_loop()
        received: asyncio.Future[bytes] = loop.create_future()

        class Client(asyncio.DatagramProtocol):
            def datagram_received(self, data: bytes, addr: Any) -> None:
                received.set_result(data)

        await ClusterDns(ClusterServices(api)).start(port)
        transport, _ = await loop.create_datagram_endpoint(Client, remote_addr=("127.0.0.1", port))
        labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
        transport.sendto(struct.pack(">6H", 7, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", kind, 1))
        return await asyncio.wait_for(received, 60)

    return asyncio.run(exchange())


def test_grpc_finds_the_ready_pods_of_a_service_on_this_machine() -> None:
    async def call() -> grpc.StatusCode:
        port, grpc_port = free_port(), free_port()
        server = grpc.aio.server()
        server.add_insecure_port(f"127.244.200.7:{grpc_port}")
        await server.start()
        await ClusterDns(ClusterServices(Api("10.244.200.7"))).start(port)  # type: ignore[arg-type]
        target = f"dns://127.0.0.1:{port}/triton-headless.triton.svc.cluster.local:{grpc_port}"
        try:
            async with grpc.aio.insecure_channel(target) as channel:
                await asyncio.wait_for(channel.unary_unary("/any/thing")(b""), 60)
        except grpc.aio.AioRpcError as error:
            return error.code()
        finally:
            await server.stop(0)
        raise AssertionError("the server has no such method")

    assert asyncio.run(call()) is grpc.StatusCode.UNIMPLEMENTED


def test_a_service_without_ready_pods_exists_and_has_no_address() -> None:
    assert struct.unpack(">6H", ask(Api(), "triton-headless.triton.svc")[:12]) == (7, 0x8580, 1, 0, 0, 0)


def test_other_names_do_not_exist() -> None:
    assert struct.unpack(">6H", ask(Api(), "example.com")[:12]) == (7, 0x8583, 1, 0, 0, 0)
    assert struct.unpack(">6H", ask(Api(), "other.triton.svc.cluster.local")[:12]) == (7, 0x8583, 1, 0, 0, 0)


def test_there_are_no_addresses_of_the_other_kind() -> None:
    assert struct.unpack(">6H", ask(Api("10.244.200.7"), "triton-headless.triton.svc", kind=28)[:12])[3] == 0


def test_an_answer_repeats_its_question_and_fits_a_datagram() -> None:
    asked = struct.pack(">6H", 9, 0x0100, 1, 0, 0, 0) + b"\x01a\x01b\x03svc\x00" + struct.pack(">HH", 1, 1)
    assert question(asked) == ("a.b.svc", 1, len(asked))
    said = answer(asked, [f"127.244.200.{host}" for host in range(2, 60)])
    assert said[12 : len(asked)] == asked[12:]
    assert len(said) <= 512
    assert said.endswith(bytes([127, 244, 200, 25]))
