"""The kubelet's endpoint, as far as the twin has one: logs and ports of the pods that run as processes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import urllib.parse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from twin.cluster import port_forward
from twin.cluster.certificates import Pki

log = logging.getLogger("twin.kubelet")
_POLL_SECONDS = 0.2


class KubeletEndpoint:
    """Serves `/containerLogs/<namespace>/<pod>/<container>` and `/portForward/<namespace>/<pod>` to the API server.

    Over TLS on loopback. `log_file` and `host` (where the pod's process listens) are None for a pod that kwok simulates.
    `spec` of one that runs here says which of its ports are not at the loopback address, to which a port forward leads.
    """

    def __init__(
        self,
        pki: Pki,
        log_file: Callable[[str, str, str], Path | None],
        host: Callable[[str, str], str | None],
        spec: Callable[[str, str], Mapping[str, Any]],
    ) -> None:
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(pki.ca))
        self._context.load_cert_chain(pki.serving.certificate, pki.serving.key)
        self._context.verify_mode = ssl.CERT_REQUIRED
        self._log_file = log_file
        self._host = host
        self._spec = spec

    async def start(self, port: int) -> None:
        """Listen on 127.0.0.1:`port`."""
        await asyncio.start_server(self._serve, "127.0.0.1", port, ssl=self._context)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            target = request.split(" ")[1]
            if target.startswith("/portForward/"):
                fields = (line.partition(":") for line in lines)
                await self._forward(target, {name.lower(): value.strip() for name, _, value in fields}, reader, writer)
            else:
                await self._answer(target, writer)
        except (OSError, asyncio.IncompleteReadError, IndexError, ValueError):
            pass  # the client went away, or spoke something else
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _forward(
        self, target: str, headers: Mapping[str, str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        url = urllib.parse.urlsplit(target)
        namespace, pod = url.path.strip("/").split("/")[1:3]
        ports = [int(port) for text in urllib.parse.parse_qs(url.query).get("port", []) for port in text.split(",")]
        host = self._host(namespace, pod)
        if host is None:
            await _refuse(writer, 404, f"pod {pod} is simulated by kwok: it runs nothing and has no port")
        elif not port_forward.speaks(headers) or len(ports) != 1:
            await _refuse(writer, 501, f"the twin's nodes forward one port, by WebSocket ({port_forward.PROTOCOL})")
        else:
            hidden = listens_elsewhere(self._spec(namespace, pod), ports[0])
            await port_forward.serve(headers, None if hidden else host, ports[0], reader, writer)

    async def _answer(self, target: str, writer: asyncio.StreamWriter) -> None:
        url = urllib.parse.urlsplit(target)
        words = url.path.strip("/").split("/")
        if len(words) != 4 or words[0] != "containerLogs":
            await _refuse(writer, 501, "the twin's nodes answer for logs and ports of pods only")
            return
        file = self._log_file(*words[1:])
        if file is None or not file.exists():
            await _refuse(writer, 404, f"pod {words[2]} is simulated by kwok: it runs nothing and has no log")
            return
        query = urllib.parse.parse_qs(url.query)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n")
        content = file.read_bytes()
        position = len(content)
        if "tailLines" in query:
            lines = content.splitlines(keepends=True)
            content = b"".join(lines[len(lines) - min(len(lines), int(query["tailLines"][0])) :])
        writer.write(content)
        await writer.drain()
        while query.get("follow") == ["true"] and self._log_file(*words[1:]) == file:
            await asyncio.sleep(_POLL_SECONDS)
            with file.open("rb") as stream:
                stream.seek(position)
                more = stream.read()
            position += len(more)
            writer.write(more)
            await writer.drain()


def listens_elsewhere(spec: Mapping[str, Any], port: int) -> bool:
    """Return whether a container has the port at its pod's address alone, by its own arguments."""
    sidecars = (one for one in spec.get("initContainers", ()) if one.get("restartPolicy") == "Always")
    containers = [*spec.get("containers", ()), *sidecars]
    return any(argument.endswith(f"$(POD_IP):{port}") for one in containers for argument in one.get("args", ()))


async def _refuse(writer: asyncio.StreamWriter, status: int, message: str) -> None:
    body = (message + "\n").encode()
    head = (
        f"HTTP/1.1 {status} Refused\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await writer.drain()
