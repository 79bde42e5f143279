"""Where a pod's address is reached from here, when that is not the address that the cluster knows."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

VARIABLE = "MODELCTL_POD_NETWORK"
"""Environment variable of the translation, so that a shell that is set up for a cluster has it."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class PodNetwork:
    """A translation of one network to another of the same size, address by address, as a VPN with 1:1 NAT does it."""

    inside: Network
    here: Network

    @classmethod
    def parse(cls, text: str) -> PodNetwork:
        """Read `10.40.0.0/16=172.16.0.0/16`: pods in the first network are reached in the second. Raises ValueError."""
        inside, separator, here = text.partition("=")
        try:
            if not separator:
                raise ValueError("there is no =")
            found = cls(ipaddress.ip_network(inside), ipaddress.ip_network(here))
            if found.inside.num_addresses != found.here.num_addresses:
                raise ValueError("the networks differ in size")
        except ValueError as error:
            raise ValueError(f"{text!r} translates no network: {error}; write 10.40.0.0/16=172.16.0.0/16") from None
        return found

    def reach(self, address: str) -> str:
        """Return where this pod is reached; the address itself when it is not in the network."""
        inside = ipaddress.ip_address(address)
        if inside not in self.inside:
            return address
        return str(self.here[int(inside) - int(self.inside.network_address)])
