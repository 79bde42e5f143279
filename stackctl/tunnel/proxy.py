"""Serve an HTTP proxy on loopback that sends the API server's connections through the tunnel.

Other hosts are reached as usual. So kubeconfig, certificates and Pulumi's state need no change. kubectl, helm and
Pulumi's providers all use HTTPS_PROXY.
"""

from __future__ import annotations

import contextlib
import re
import socket
import socketserver
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

from console import loopback
from spec.failure import Failure
from stackctl.tunnel.ssm import TunnelUnusable

_VARIABLES = ("HTTPS_PROXY", "https_proxy")
_CONNECT = re.compile(rb"CONNECT ([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5}) HTTP/1\.[01]")
_LONGEST_HEADER = 64 * 1024
_CONNECT_SECONDS = 30
_BLOCK = 64 * 1024


@dataclass(frozen=True)
class Surroundings:
    """This machine's own https proxy, as `host` and `port`, and its NO_PROXY value."""

    proxy: tuple[str, int] | None
    no_proxy: str

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Surroundings:
        """Read both from the environment. Raises TunnelUnusable for an unusable proxy."""
        no_proxy = next((environ[name] for name in loopback.NO_PROXY if environ.get(name)), "")
        variable = next((name for name in _VARIABLES if environ.get(name)), None)
        if variable is None:
            return cls(None, no_proxy)
        text = environ[variable]
        try:
            address = urlsplit(text if "://" in text else f"http://{text}")
            host, port = address.hostname, 80 if address.port is None else address.port
        except ValueError:  # brackets without an IPv6 address, or an invalid port
            host, port = None, 0
        if not host or not port or address.scheme != "http":
            raise TunnelUnusable(f"{variable} is no address of an http proxy; give one like http://proxy.example.com:3128")
        if address.username is not None:
            # Every process of this machine could use the tunnel's proxy, and so this login.
            raise TunnelUnusable(
                f"{variable} has a login in it, which the tunnel would lend to everybody on this machine; give a proxy "
                "without one, or unset it"
            )
        return cls((host, port), no_proxy)

    def proxy_for(self, host: str) -> tuple[str, int] | None:
        """Return the proxy for a host; None: direct connection."""
        return None if self.without_proxy(host, self.no_proxy) else self.proxy

    @staticmethod
    def without_proxy(host: str, no_proxy: str) -> bool:
        """Return whether a value of NO_PROXY covers a host."""
        return bool(proxy_bypass_environment(host, {"no": no_proxy}))


def variables(environ: Mapping[str, str], host: str, port: int) -> dict[str, str]:
    """Return the variables that send a program's requests through the proxy on `port`.

    NO_PROXY keeps its entries, except those that match the API server's `host`, because they would bypass the tunnel.
    """
    names = {name: environ.get(name, "") for name in loopback.NO_PROXY}
    kept = {
        name: ",".join(entry for entry in value.split(",") if not Surroundings.without_proxy(host, entry))
        for name, value in names.items()
    }
    return dict.fromkeys(_VARIABLES, f"http://127.0.0.1:{port}") | loopback.direct(kept)


class Proxy(socketserver.ThreadingTCPServer):
    """Serve CONNECT on a free port of 127.0.0.1, until `close`.

    `tunnel` connects to the API server, whose name is `host`. It raises Failure or OSError; the error goes to the client
    and to `say`.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(
        self, host: str, tunnel: Callable[[], socket.socket], surroundings: Surroundings, say: Callable[[str], None]
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Client)
        self.host, self.tunnel, self.surroundings, self.say = host.lower(), tunnel, surroundings, say
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def port(self) -> int:
        """Return the port that it listens on."""
        return int(self.server_address[1])

    def close(self) -> None:
        """Stop accepting connections."""
        self.shutdown()
        self.server_close()

    def connect(self, host: str, port: int) -> socket.socket:
        """Return a connection to a host: by tunnel, by the machine's proxy, or directly."""
        if (host.lower(), port) == (self.host, 443):
            return self.tunnel()
        proxy = self.surroundings.proxy_for(host)
        if proxy is None:
            return socket.create_connection((host.strip("[]"), port), timeout=_CONNECT_SECONDS)
        connection = socket.create_connection(proxy, timeout=_CONNECT_SECONDS)
        connection.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        status = _header(connection).partition(b"\r\n")[0]
        if status.split(b" ")[1:2] != [b"200"]:
            connection.close()
            raise OSError(f"the proxy {proxy[0]}:{proxy[1]} answers {status.decode(errors='replace')}")
        return connection


class _Client(socketserver.BaseRequestHandler):
    server: Proxy
    request: socket.socket

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            self.request.settimeout(_CONNECT_SECONDS)
            asked = _CONNECT.fullmatch(_header(self.request).partition(b"\r\n")[0])
            if asked is None:
                self._refuse("405 Method Not Allowed", "this proxy takes CONNECT alone, as for https")
                return
            host, port = asked[1].decode(), int(asked[2])
            try:
                other = self.server.connect(host, port)
            except (Failure, OSError, OverflowError, UnicodeError) as error:  # UnicodeError: a name that DNS cannot have
                self.server.say(f"{host}:{port} is not reached: {error}")
                self._refuse("502 Bad Gateway", str(error))
                return
            with other:
                self.request.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                _join(self.request, other)

    def _refuse(self, status: str, why: str) -> None:
        body = f"{why}\n".encode()
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
        self.request.sendall(head + body)


def _header(connection: socket.socket) -> bytes:
    """Read up to the empty line, and no further. The following bytes belong to the other side."""
    read = b""
    while not read.endswith(b"\r\n\r\n"):
        byte = connection.recv(1)
        if not byte or len(read) > _LONGEST_HEADER:
            raise OSError("no HTTP header came")
        read += byte
    return read


def _join(one: socket.socket, other: socket.socket) -> None:
    """Copy data in both directions until both sides have closed. A watch may be silent for long."""
    one.settimeout(None)
    other.settimeout(None)
    back = threading.Thread(target=_copy, args=(other, one), daemon=True)
    back.start()
    _copy(one, other)
    back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_BLOCK):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
