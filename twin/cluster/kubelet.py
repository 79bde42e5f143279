"""The twin's part of the kubelet's endpoint: logs, ports and commands of the pods that run as processes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from twin.cluster import port_forward
from twin.cluster.certificates import Pki

log = logging.getLogger("twin.kubelet")
_POLL_SECONDS = 0.2


class KubeletEndpoint:
    """Serves `/containerLogs/<namespace>/<pod>/<container>`, `/portForward/<namespace>/<pod>` and `/exec/…`.

    Its client is the API server, over TLS on loopback. `log_file` and `host` (the address of the pod's process) return None
    for a pod that kwok simulates. `execute` runs a command in a container, and returns exit code and output. `spec` is the
    spec of a pod that runs here; it shows which ports are not at the loopback address that port forwards use.
    """

    def __init__(
        self,
        pki: Pki,
        log_file: Callable[[str, str, str], Path | None],
        host: Callable[[str, str], str | None],
        spec: Callable[[str, str], Mapping[str, Any]],
        execute: Callable[[str, str, str, list[str]], Awaitable[tuple[int, str] | None]],
    ) -> None:
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(pki.ca))
        self._context.load_cert_chain(pki.serving.certificate, pki.serving.key)
        self._context.verify_mode = ssl.CERT_REQUIRED
        self._log_file = log_file
        self._host = host
        self._spec = spec
        self._execute = execute

    async def start(self, port: int) -> None:
        """Listen on 127.0.0.1:`port`."""
        await asyncio.start_server(self._serve, "127.0.0.1", port, ssl=self._context)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            target = request.split(" ")[1]
            fields = (line.partition(":") for line in lines)
            headers = {name.lower(): value.strip() for name, _, value in fields}
            if target.startswith("/portForward/"):
                await self._forward(target, headers, reader, writer)
            elif target.startswith("/exec/"):
                await self._run(target, headers, writer)
            else:
                await self._answer(target, writer)
        except (OSError, asyncio.IncompleteReadError, IndexError, ValueError):
            pass  # the client disconnected, or sent something else
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

    async def _run(self, target: str, headers: Mapping[str, str], writer: asyncio.StreamWriter) -> None:
        url = urllib.parse.urlsplit(target)
        namespace, pod, container = url.path.strip("/").split("/")[1:4]
        query = urllib.parse.parse_qs(url.query)
        if not port_forward.speaks(headers) or "input" in query or "tty" in query:
            message = f"the twin's nodes run commands without input, by WebSocket ({port_forward.PROTOCOL})"
            await _refuse(writer, 501, message)
            return
        ended = await self._execute(namespace, pod, container, query.get("command", []))
        if ended is None:
            await _refuse(writer, 404, f"pod {pod} is simulated by kwok: it has no container in which a command could run")
        else:
            await port_forward.executed(headers, *ended, writer)

    async def _answer(self, target: str, writer: asyncio.StreamWriter) -> None:
        url = urllib.parse.urlsplit(target)
        words = url.path.strip("/").split("/")
        if len(words) != 4 or words[0] != "containerLogs":
            await _refuse(writer, 501, "the twin's nodes answer for logs, ports and commands of pods only")
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
    """Return whether a container listens on the port only at its pod's address, by its arguments."""
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
