"""Fake HTTP servers on a free port of loopback."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    """A request handler without a log."""

    def body(self) -> bytes:
        """Return the request's body."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, status: int, content: bytes = b"", **headers: str) -> None:
        """Send an answer with these headers; `content_type` is Content-Type."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            with suppress(BrokenPipeError):  # the client did not wait
                self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Write no log: tests check the requests."""


class Server(ThreadingHTTPServer):
    @property
    def url(self) -> str:
        return f"http://{self.server_address[0]!s}:{self.server_port}"


@contextmanager
def listening(handler: type[Handler], tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    with Server(("127.0.0.1", 0), handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
