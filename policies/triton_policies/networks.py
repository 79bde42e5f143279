"""Address ranges, as needed by the rules about ingress."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_network

_PRIVATE = tuple(
    ip_network(text)
    for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "198.18.0.0/15", "fc00::/7")
)
_WIDEST_PRIVATE = {4: 8, 6: 7}
"""10.0.0.0/8 and fc00::/7: any wider range contains internet addresses."""


def is_world(cidr: object) -> bool:
    """Return whether a range is the internet or a large part of it. 0.0.0.0/0 can be written as two halves."""
    try:
        network = ip_network(str(cidr), strict=False)
    except ValueError:
        return False
    return network.prefixlen < _WIDEST_PRIVATE[network.version]


def is_private(cidr: object) -> bool:
    """Return whether a range contains no internet addresses."""
    try:
        network = ip_network(str(cidr), strict=False)
    except ValueError:
        return False
    return any(_within(network, private) for private in _PRIVATE)


def _within(network: IPv4Network | IPv6Network, other: IPv4Network | IPv6Network) -> bool:
    if isinstance(network, IPv4Network) and isinstance(other, IPv4Network):
        return network.subnet_of(other)
    return isinstance(network, IPv6Network) and isinstance(other, IPv6Network) and network.subnet_of(other)
