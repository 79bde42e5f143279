"""Serve Prometheus metrics of a command while it runs."""

from __future__ import annotations

import re
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.registry import Collector

from spec.failure import NOT_TRIED, Failure

_PORT = re.compile(r"[0-9]{1,5}")
_LARGEST_PORT = 65535


class WrongAddress(Failure):
    """An option has an invalid address, or an address that cannot be bound."""

    exit_code = NOT_TRIED


def address(option: str, text: str) -> tuple[str, int]:
    """Return host and port of `ADDRESS:PORT`. Raises WrongAddress, which names the option."""
    host, separator, port = text.rpartition(":")
    if not separator or not _PORT.fullmatch(port) or int(port) > _LARGEST_PORT:
        raise WrongAddress(f"{option} {text!r} is no address; write ADDRESS:PORT, like 0.0.0.0:9108")
    return host.strip("[]"), int(port)


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Silent(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Log nothing; the command writes the log."""


@contextmanager
def serving(
    collector: Collector, option: str, host: str, port: int, *, answers: Mapping[str, Callable[[], bytes]] | None = None
) -> Iterator[None]:
    """Serve the collector's metrics, and JSON at the paths of `answers`.

    Raises WrongAddress if the address cannot be bound.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    metrics, others = make_wsgi_app(registry), answers or {}

    def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        other = others.get(environ["PATH_INFO"])
        if other is None:
            return metrics(environ, start_response)
        start_response("200 OK", [("Content-Type", "application/json")])
        return [other()]

    try:
        server = make_server(host, port, answer, _Server6 if ":" in host else _Server, _Silent)
    except OSError as error:
        why = f"{error.strerror or error}; write an address and a free port of this machine"
        raise WrongAddress(f"{option} {host}:{port}: {why}") from None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"metrics at http://{host}:{server.server_port}/metrics", file=sys.stderr)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
