"""DNS for pods that run as processes: resolve a Service's name to the addresses of its ready pods on this machine.

The answer is CoreDNS's answer for a headless Service. All other Services get the same kind of answer, because virtual
addresses do not work here.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from typing import cast

from twin.cluster.kube_errors import KubeError
from twin.cluster.services import ClusterServices

log = logging.getLogger("twin.dns")
_HEADER = struct.Struct(">6H")
_A, _INTERNET = 1, 1
_ANSWER_FLAGS = 0x8580  # an answer, authoritative, recursion desired and available
_NO_SUCH_NAME, _SERVER_FAILURE = 3, 2
_SECONDS = 1
_MOST_ANSWERS = 24
"""The number that fits into a datagram of 512 bytes."""


class ClusterDns(asyncio.DatagramProtocol):
    """Answers A questions over UDP; a name has no records of other types."""

    def __init__(self, services: ClusterServices) -> None:
        self._services = services
        self._transport: asyncio.DatagramTransport | None = None
        self._answering: set[asyncio.Task[None]] = set()

    async def start(self, port: int) -> None:
        """Listen on 127.0.0.1."""
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(lambda: self, local_addr=("127.0.0.1", port))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        task = asyncio.create_task(self._answer(data, addr))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self, data: bytes, addr: tuple[str, int]) -> None:
        try:
            name, kind, end = question(data)
        except (IndexError, UnicodeDecodeError, struct.error):
            return  # not a question
        addresses: list[str] | None
        try:
            addresses, failure = await self._services.addresses(name), _NO_SUCH_NAME
        except KubeError as error:
            log.warning("cannot answer for %s: %s", name, error)
            addresses, failure = None, _SERVER_FAILURE
        assert self._transport is not None
        self._transport.sendto(answer(data[:end], addresses if kind == _A or addresses is None else [], failure), addr)


def question(data: bytes) -> tuple[str, int, int]:
    """Return the name and type of a question, and the offset of its end.

    Raises IndexError or struct.error for a broken datagram.
    """
    labels, at = [], _HEADER.size
    while length := data[at]:
        labels.append(data[at + 1 : at + 1 + length].decode("ascii"))
        at += length + 1
    (kind,) = struct.unpack_from(">H", data, at + 1)
    return ".".join(labels).lower(), kind, at + 5


def answer(asked: bytes, addresses: list[str] | None, failure: int = _NO_SUCH_NAME) -> bytes:
    """Return the response datagram for `asked`, header and question; None as addresses reports `failure` instead."""
    (number,) = struct.unpack_from(">H", asked)
    listed = (addresses or [])[:_MOST_ANSWERS]
    flags = _ANSWER_FLAGS | (failure if addresses is None else 0)
    head = _HEADER.pack(number, flags, 1, len(listed), 0, 0) + asked[_HEADER.size :]
    # 0xc00c points back to the name in the question.
    fixed = b"\xc0\x0c" + struct.pack(">HHIH", _A, _INTERNET, _SECONDS, 4)
    return head + b"".join(fixed + bytes(map(int, address.split("."))) for address in listed)
