"""The kubelet's end of `pods/portforward` and of `pods/exec`, over WebSocket.

The protocol is `v4.channel.k8s.io` of kubernetes/kubelet, pkg/cri/streaming/portforward/websocket.go. Each port has two
channels, for data and for errors. The first message of each channel is the port, and the first byte of each message is the
channel. SPDY, which `kubectl port-forward` uses, is refused. Commands follow pkg/cri/streaming/remotecommand/websocket.go,
without input.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import struct
from collections.abc import Mapping

PROTOCOL = "v4.channel.k8s.io"
_ACCEPT = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""The constant in RFC 6455, section 1.3."""
_CONTINUATION, _BINARY, _CLOSE, _PING, _PONG = 0x0, 0x2, 0x8, 0x9, 0xA
_DATA, _ERROR = b"\x00", b"\x01"
_STDOUT, _STDERR, _STATUS = b"\x01", b"\x02", b"\x03"
_BLOCK = 65536
_LARGEST = 32 * 1024 * 1024


def speaks(headers: Mapping[str, str]) -> bool:
    """Return whether a request, by its headers in lower case, requests this protocol."""
    offered = [name.strip() for name in headers.get("sec-websocket-protocol", "").split(",")]
    return headers.get("upgrade", "").lower() == "websocket" and PROTOCOL in offered


async def serve(
    headers: Mapping[str, str], host: str | None, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Take over the connection, and copy bytes to and from `host`:`port` until one side closes it.

    `host` is None if nothing listens there. As in containerd, the error then names the loopback address inside the pod:
    https://github.com/containerd/containerd/blob/v2.1.4/internal/cri/server/sandbox_portforward_linux.go.
    """
    writer.write(_head(headers))
    for channel in (_DATA, _ERROR):
        writer.write(_frame(_BINARY, channel + struct.pack("<H", port)))
    try:
        if host is None:
            raise ConnectionRefusedError
        from_pod, to_pod = await asyncio.open_connection(host, port)
    except OSError:
        refused = f"failed to connect to localhost:{port} inside namespace: connect: connection refused"
        writer.write(_frame(_BINARY, _ERROR + refused.encode()) + _frame(_CLOSE, b""))
        await writer.drain()
        return
    pumps = [asyncio.create_task(_to_pod(reader, writer, to_pod)), asyncio.create_task(_from_pod(from_pod, writer))]
    try:
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        to_pod.close()
        with contextlib.suppress(OSError):
            writer.write(_frame(_CLOSE, b""))
            await writer.drain()


async def executed(headers: Mapping[str, str], code: int, output: str, writer: asyncio.StreamWriter) -> None:
    """Take over the connection, and send the output and the status of a finished command."""
    status: dict[str, object] = {"metadata": {}, "status": "Success"}
    if code != 0:
        causes = [{"reason": "ExitCode", "message": str(code)}]
        status |= {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}
    channel = _STDOUT if code == 0 else _STDERR
    frames = (channel + output.encode(), _STATUS + json.dumps(status).encode())
    writer.write(_head(headers) + b"".join(_frame(_BINARY, frame) for frame in frames) + _frame(_CLOSE, b""))
    await writer.drain()


def _head(headers: Mapping[str, str]) -> bytes:
    accept = base64.b64encode(
        hashlib.sha1((headers["sec-websocket-key"] + _ACCEPT).encode(), usedforsecurity=False).digest()
    )
    return (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {accept.decode()}\r\nSec-WebSocket-Protocol: {PROTOCOL}\r\n\r\n"
    ).encode()


async def _from_pod(from_pod: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await from_pod.read(_BLOCK):
        writer.write(_frame(_BINARY, _DATA + data))
        await writer.drain()


async def _to_pod(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, to_pod: asyncio.StreamWriter) -> None:
    message = b""
    while True:
        first, second = await reader.readexactly(2)
        size = second & 0x7F
        if size >= 126:
            size = int.from_bytes(await reader.readexactly(2 if size == 126 else 8), "big")
        if size > _LARGEST:
            return
        mask = await reader.readexactly(4) if second & 0x80 else b""
        payload = _unmasked(await reader.readexactly(size), mask)
        opcode = first & 0x0F
        if opcode == _CLOSE:
            return
        if opcode == _PING:
            writer.write(_frame(_PONG, payload))
        if opcode not in (_CONTINUATION, _BINARY):
            continue
        message += payload
        if first & 0x80:
            if message[:1] == _DATA:
                to_pod.write(message[1:])
                await to_pod.drain()
            message = b""


def _unmasked(payload: bytes, mask: bytes) -> bytes:
    if not mask or not payload:
        return payload
    key = (mask * (len(payload) // 4 + 1))[: len(payload)]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(len(payload), "big")


def _frame(opcode: int, payload: bytes) -> bytes:
    size = len(payload)
    if size < 126:
        head = struct.pack("!BB", 0x80 | opcode, size)
    elif size < 65536:
        head = struct.pack("!BBH", 0x80 | opcode, 126, size)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, 127, size)
    return head + payload
