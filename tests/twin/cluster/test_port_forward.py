"""The kubelet's end of a port-forward, used by the client of the `kubernetes` package."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes.stream.ws_client import PortForward
from websocket import WebSocket

from twin.cluster import kubelet as kubelet_endpoint
from twin.cluster import port_forward


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Echo the input, and close when the other side closes."""
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


class Kubelet:
    """A server of port-forwards to one port, and the port's own server, in a thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.pod_port = 0
        self.port = 0

    async def start(self) -> None:
        pod = await asyncio.start_server(_echo, "127.0.0.1", 0)
        self.pod_port = pod.sockets[0].getsockname()[1]
        kubelet = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = kubelet.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        assert port_forward.speaks(headers)
        with contextlib.suppress(asyncio.IncompleteReadError):
            await port_forward.serve(headers, "127.0.0.1", int(head[0].split("=")[1].split(" ")[0]), reader, writer)
        writer.close()


@pytest.fixture
def kubelet() -> Iterator[Kubelet]:
    made = Kubelet()
    made.loop.run_until_complete(made.start())
    thread = threading.Thread(target=made.loop.run_forever)
    thread.start()
    yield made
    made.loop.call_soon_threadsafe(made.loop.stop)
    thread.join()
    tasks = asyncio.all_tasks(made.loop)
    for task in tasks:
        task.cancel()
    if tasks:
        made.loop.run_until_complete(asyncio.wait(tasks))
    made.loop.close()


def _forward(kubelet: Kubelet, port: int) -> Any:
    connection = WebSocket()
    connection.connect(f"ws://127.0.0.1:{kubelet.port}/?port={port}", subprotocols=[port_forward.PROTOCOL])
    return PortForward(connection, [port])


@pytest.mark.parametrize("size", [1, 125, 126, 65_535, 65_536, 1_000_000])
def test_bytes_come_and_go_whatever_their_number(kubelet: Kubelet, size: int) -> None:
    forward = _forward(kubelet, kubelet.pod_port)
    sock = forward.socket(kubelet.pod_port)
    sock.settimeout(20)
    sent = bytes(index % 251 for index in range(size))
    sender = threading.Thread(target=sock.sendall, args=(sent,))
    sender.start()
    found = b""
    while len(found) < size:
        found += sock.recv(65536)
    sender.join()
    forward.close()
    assert found == sent


def test_a_port_on_which_nothing_listens_is_told(kubelet: Kubelet) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        forward = _forward(kubelet, port)
        sock = forward.socket(port)
        sock.settimeout(20)
        assert sock.recv(1) == b""
        said = f"failed to connect to localhost:{port} inside namespace: connect: connection refused"
        assert forward.error(port) == said


@pytest.mark.parametrize(
    "headers",
    [{}, {"upgrade": "SPDY/3.1"}, {"upgrade": "websocket", "sec-websocket-protocol": "SPDY/3.1+portforward.k8s.io"}],
)
def test_another_protocol_is_not_taken_for_it(headers: dict[str, str]) -> None:
    assert not port_forward.speaks(headers)


def test_a_port_at_the_pods_address_alone_is_not_at_its_loopback_address() -> None:
    """The kubelet connects to localhost in the pod: an init container has terminated by then, but a sidecar listens."""
    follow = {"args": ["follow", "--serve=$(POD_IP):8003"], "restartPolicy": "Always"}
    everywhere = {"args": ["follow", "--serve=0.0.0.0:8003"], "restartPolicy": "Always"}
    fetch = {"args": ["fetch", "--serve=$(POD_IP):8002"]}
    server = {"name": "triton", "args": ["tritonserver"]}
    spec = {"containers": [server], "initContainers": [fetch, follow]}
    assert [kubelet_endpoint.listens_elsewhere(spec, port) for port in (8000, 8002, 8003)] == [False, False, True]
    assert not kubelet_endpoint.listens_elsewhere({**spec, "initContainers": [fetch, everywhere]}, 8003)
