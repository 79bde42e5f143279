"""Prometheus metrics of a command, while it runs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.registry import Collector

from spec.failure import NOT_TRIED, Failure

_PORT = re.compile(r"[0-9]{1,5}")
_LARGEST_PORT = 65535


class WrongAddress(Failure):
    """An option names an address that is none, or that cannot be listened at."""

    exit_code = NOT_TRIED


def address(option: str, text: str) -> tuple[str, int]:
    """Return host and port of `ADDRESS:PORT`. Raises WrongAddress, which names the option."""
    host, separator, port = text.rpartition(":")
    if not separator or not _PORT.fullmatch(port) or int(port) > _LARGEST_PORT:
        raise WrongAddress(f"{option} {text!r} is no address; write ADDRESS:PORT, like 0.0.0.0:9108")
    return host.strip("[]"), int(port)


@contextmanager
def serving(collector: Collector, option: str, host: str, port: int) -> Iterator[None]:
    """Answer scrapes with what the collector says. Raises WrongAddress where nothing can listen there."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    try:
        server, _ = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        why = f"{error.strerror or error}; write an address and a free port of this machine"
        raise WrongAddress(f"{option} {host}:{port}: {why}") from None
    print(f"metrics at http://{host}:{server.server_port}/metrics", file=sys.stderr)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
