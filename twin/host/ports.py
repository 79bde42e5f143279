"""Loopback ports that a twin keeps over restarts, so that kubeconfigs and URLs stay valid."""

from __future__ import annotations

import random
import socket

from spec.failure import NOT_TRIED, Failure
from twin.host.home import TwinHome, read_json, write_json

_CANDIDATES = range(20000, 32000)
"""Below the kernel's range for outgoing connections; else a client's socket could occupy a kept port after a restart."""


class NoPort(Failure):
    """Other programs listen on every port in the twin's range."""

    exit_code = NOT_TRIED


def keep(home: TwinHome, name: str, *, held: bool = False) -> int:
    """Return the port of `name` in this twin: its previous one, or a free one that is recorded for later.

    `held` means that the twin's own process listens on the kept port now. Otherwise a kept port on which another process
    listens is replaced. Raises NoPort.
    """
    file = home.run / "ports.json"
    ports = read_json(file) or {}
    kept = ports.get(name)
    if isinstance(kept, int) and (held or is_free("127.0.0.1", kept)):
        return kept
    taken = set(ports.values())
    for port in random.sample(_CANDIDATES, len(_CANDIDATES)):
        if port not in taken and is_free("127.0.0.1", port):
            write_json(file, {**ports, name: port})
            return port
    raise NoPort(
        f"no TCP port from {_CANDIDATES.start} to {_CANDIDATES.stop - 1} is free on 127.0.0.1 for {name}: end what listens "
        "on them (`ss --listening --tcp --processes` names it)"
    )


def is_free(address: str, port: int) -> bool:
    """Return whether a server could listen on `address`:`port` now (connections that are still closing do not count)."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
            probe.listen(1)
        except OSError:
            return False
    return True
