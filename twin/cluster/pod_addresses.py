"""Addresses of pods that run as processes: 10.244.a.b in the API, 127.244.a.b on this machine.

EndpointSlices refuse loopback addresses, so the API shows the matching address in the pod network
(docs/facts/local-control-plane.md#pod-addresses). All of 127/8 can be bound without set-up. Each twin has its own /24, which
the agent holds with a listening socket, so two twins never allot the same address.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Sequence

from twin.host import ports
from twin.host.home import TwinHome, read_json, write_json

_GUARD_PORT = 7999
_RANGES = range(128, 256)
"""Third octets. Octets below 128 are kwok's (control_plane.SIMULATED_POD_CIDR)."""
_HOSTS = range(2, 255)


class NoAddress(RuntimeError):
    """No address is available for a pod; the text gives the reason."""


class Addresses:
    """One twin's /24, held until the process exits, and the addresses allotted to pods (by UID)."""

    def __init__(self, home: TwinHome) -> None:
        self._given: dict[str, str] = {}
        self._home = home
        self._guard, self._octet = self._hold_range()
        for path in home.pods.glob("*/address.json"):
            content = read_json(path)
            if content:
                self._given[path.parent.name] = content["podIP"]

    def allot(self, uid: str, wanted: Sequence[int]) -> str:
        """Return the pod's address, the same at every call; a new address is free on the ports `wanted`.

        Raises NoAddress.
        """
        if uid in self._given:
            return self._given[uid]
        taken = set(self._given.values())
        for host in _HOSTS:
            address = f"10.244.{self._octet}.{host}"
            if address not in taken and all(ports.is_free(loopback(address), p) for p in wanted):
                self._given[uid] = address
                write_json(self._home.pods / uid / "address.json", {"podIP": address})
                return address
        listed = ", ".join(map(str, wanted))
        raise NoAddress(
            f"no address in 127.244.{self._octet}.0/24 has the ports {listed} free; does another program listen on one of "
            "them on every interface (0.0.0.0)?"
        )

    def release(self, uid: str) -> None:
        """Release a pod's address."""
        self._given.pop(uid, None)

    def _hold_range(self) -> tuple[socket.socket, int]:
        file = self._home.pods / "range.json"
        kept: int = (read_json(file) or {}).get("octet", 0)
        first = hashlib.sha256(str(self._home.path).encode()).digest()[0] % len(_RANGES)
        candidates = [_RANGES[(first + i) % len(_RANGES)] for i in range(len(_RANGES))]
        for octet in [kept, *candidates] if kept in _RANGES else candidates:
            guard = socket.socket()
            guard.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                guard.bind((f"127.244.{octet}.1", _GUARD_PORT))
                guard.listen(1)
            except OSError:
                guard.close()
                continue
            write_json(file, {"octet": octet})
            return guard, octet
        raise NoAddress(f"every range 127.244.128-255.0/24 is held by another twin, or port {_GUARD_PORT} is taken")


def is_of_a_process(pod_ip: str) -> bool:
    """Return whether an address belongs to a pod that runs as a process; False for kwok's, and for none."""
    octets = pod_ip.split(".")
    return octets[:2] == ["10", "244"] and int(octets[2]) in _RANGES


def own(home: TwinHome) -> str:
    """Return a running twin's own loopback address, which no pod uses: its pods find services there at fixed ports."""
    return f"127.244.{(read_json(home.pods / 'range.json') or {})['octet']}.1"


def of_the_twin(address: str) -> str:
    """Return the own address of the twin to which a pod's loopback address belongs."""
    return f"{address.rpartition('.')[0]}.1"


def loopback(pod_ip: str) -> str:
    """Return the loopback address of the process of the pod with this address."""
    return "127." + pod_ip.removeprefix("10.")
