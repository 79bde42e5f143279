"""An API server that forwards ports of pods, and a network before it that loses connections."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import ssl
import struct
import threading
import urllib.parse
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kubernetes import client

from console.port_forward import PortForwards
from twin.cluster import port_forward

NAMESPACE = "triton"
_LOST_AFTER = (200, 2400, 2700, 3000, 4000)
"""Bytes to the API server: of a TLS handshake with a client certificate, of an upgrade, and of later requests."""


@contextmanager
def _running_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield loop
    finally:

        async def end() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@dataclass
class ApiServer:
    """Forwards to the pods by their names; each name is the host on which its process listens.

    `keys` are the admin keys of pods, which `exec` reads; it refuses for a pod without a key.

    `refusals` are the statuses of the next responses, and `requests` the headers of all requests.
    """

    pods: Mapping[str, str]
    refusals: list[int] = field(default_factory=list)
    requests: list[dict[str, str]] = field(default_factory=list)
    url: str = ""
    silent: bool = False
    keys: dict[str, str] = field(default_factory=dict)

    def forwards(self, tell: Any = lambda _: None) -> PortForwards:
        return PortForwards(client.ApiClient(client.Configuration(host=self.url)), NAMESPACE, tell)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            request, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            fields = (line.partition(":") for line in lines)
            headers = {name.lower(): value.strip() for name, _, value in fields if name}
            self.requests.append(headers)
            url = urllib.parse.urlsplit(request.split(" ")[1])
            pod = url.path.removeprefix(f"/api/v1/namespaces/{NAMESPACE}/pods/").removesuffix("/portforward")
            if url.path.endswith("/exec"):
                await self._exec(url, headers, writer)
                return
            (port,) = urllib.parse.parse_qs(url.query)["ports"]
            if self.silent:
                await reader.read()
            elif self.refusals:
                await _refuse(writer, self.refusals.pop(0), "not now")
            elif pod not in self.pods:
                await _refuse(writer, 404, f'pods "{pod}" not found')
            else:
                assert port_forward.speaks(headers)
                await port_forward.serve(headers, self.pods[pod], int(port), reader, writer)
        writer.close()

    async def _exec(self, url: urllib.parse.SplitResult, headers: Mapping[str, str], writer: asyncio.StreamWriter) -> None:
        pod = url.path.split("/")[-2]
        query = urllib.parse.parse_qs(url.query)
        assert (query["container"], query["command"]) == (["triton"], ["cat", "/run/triton/admin-key"])
        if self.refusals:
            await _refuse(writer, self.refusals.pop(0), "not now")
        elif pod in self.keys:
            await port_forward.executed(headers, 0, self.keys[pod], writer)
        else:
            await port_forward.executed(headers, 1, "cat: /run/triton/admin-key: No such file or directory\n", writer)


async def _refuse(writer: asyncio.StreamWriter, status: int, message: str) -> None:
    await _answer(writer, status, {"kind": "Status", "message": message})


async def _answer(writer: asyncio.StreamWriter, status: int, document: dict[str, Any]) -> None:
    body = json.dumps(document).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close"
    writer.write(f"{head}\r\n\r\n".encode() + body)
    await writer.drain()
    writer.close()


@contextmanager
def api_server(pods: Mapping[str, str], tls: ssl.SSLContext | None = None) -> Iterator[ApiServer]:
    server = ApiServer(pods)
    with _running_loop() as loop:
        _run(loop, _listen(server, tls))
        yield server


async def _listen(server: ApiServer, tls: ssl.SSLContext | None) -> None:
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    server.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{listener.sockets[0].getsockname()[1]}"


def _run(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> None:
    asyncio.run_coroutine_threadsafe(work, loop).result(20)


class Network:
    """A TCP proxy that can reset every connection at once, like a dead peer; created by `network`.

    `every`: one in this many connections is reset after some bytes to the other end.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._sizes = itertools.cycle(_LOST_AFTER)
        self.every = 0
        self.lost = 0

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def run(self) -> None:
        with contextlib.suppress(OSError):
            for number in itertools.count(1):
                near, _ = self._listener.accept()
                far = socket.create_connection(self._target)
                with self._lock:
                    self._open += [near, far]
                size = next(self._sizes) if self.every and not number % self.every else None
                for carried in ((near, far, size), (far, near, None)):
                    threading.Thread(target=self._carry, args=carried, daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, lost_after: int | None) -> None:
        carried = 0
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
                carried += len(data)
                if lost_after is not None and carried >= lost_after:
                    self.lost += 1
                    _reset(source)
                    break
        for sock in (source, sink):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open = [sock for sock in self._open if sock not in (source, sink)]

    def lose(self) -> int:
        """Reset every connection; return their number."""
        with self._lock:
            lost, self._open = self._open, []
        for sock in lost:
            _reset(sock)
        self.lost += len(lost) // 2
        return len(lost) // 2

    def close(self) -> None:
        self.lose()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def _reset(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.shutdown(socket.SHUT_RD)
    with contextlib.suppress(OSError):
        sock.close()


@contextmanager
def network(host: str, port: int) -> Iterator[Network]:
    """Yield a network in front of this address."""
    made = Network(host, port)
    threading.Thread(target=made.run, daemon=True).start()
    try:
        yield made
    finally:
        made.close()
