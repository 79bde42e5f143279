"""Serve the worker's HTTP port: /livez, /readyz and /metrics."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from socketserver import ThreadingMixIn
from types import TracebackType
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import make_wsgi_app

from worker.metrics import Metrics
from worker.settings import InvalidSettings

_LONGEST_SILENCE_SECONDS = 30.0


class Health:
    """The state that probes read. The event loop writes it, the server's threads read it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._beat = clock()
        self.ready = False
        """Whether the last poll of the queue succeeded and the worker is not stopping."""

    def beat(self) -> None:
        """Record that the event loop runs."""
        self._beat = self._clock()

    @property
    def alive(self) -> bool:
        """Return whether the event loop has run recently. A restart would not repair a failure elsewhere."""
        return self._clock() - self._beat < _LONGEST_SILENCE_SECONDS


class HealthServer(AbstractContextManager["HealthServer"]):
    """Serves in separate threads while the context is open. `listen` is host:port or [IPv6]:port; port 0 is a free port.

    Raises InvalidSettings if it cannot listen there.
    """

    def __init__(self, listen: str, health: Health, metrics: Metrics) -> None:
        host, _, port = listen.rpartition(":")
        exposition = make_wsgi_app(metrics.registry)

        def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            path = environ["PATH_INFO"]
            if path == "/metrics":
                return exposition(environ, start_response)
            well = {"/livez": health.alive, "/readyz": health.ready}.get(path)
            status = "404 Not Found" if well is None else "200 OK" if well else "503 Service Unavailable"
            start_response(status, [("Content-Type", "text/plain")])
            return [status.encode()]

        try:
            server = _ServerOfIPv6 if ":" in host else _Server
            self._server = make_server(host.strip("[]"), int(port), application, server, _Quiet)
        except OSError as error:
            said = error.strerror or error
            raise InvalidSettings(
                f"WORKER_LISTEN: cannot listen at {listen} ({said}); give another address and port"
            ) from None
        self._thread = threading.Thread(target=self._server.serve_forever, name="health", daemon=True)

    @property
    def port(self) -> int:
        """Return the port on which it listens."""
        return int(self._server.server_port)

    def __enter__(self) -> HealthServer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _ServerOfIPv6(_Server):
    address_family = socket.AF_INET6


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing, because probes come every few seconds."""
