"""Ranges of addresses, as far as rules about ways in need them."""

from __future__ import annotations

from ipaddress import ip_network

_WIDEST_PRIVATE = {4: 8, 6: 7}
"""10.0.0.0/8 and fc00::/7: whatever is wider has addresses of the internet in it."""


def is_world(cidr: object) -> bool:
    """Whether a range is the internet or a large part of it: 0.0.0.0/0 can be written as two halves."""
    try:
        network = ip_network(str(cidr), strict=False)
    except ValueError:
        return False
    return network.prefixlen < _WIDEST_PRIVATE[network.version]
