"""How the VPC's address range is cut into subnets, and how much room a node takes in one. Pure arithmetic.

The range is cut into four quarters, one per availability zone, whether or not the fourth zone is used: adding a zone
later never moves (and so never replaces) an existing subnet. A range smaller than a /20 is cut into two halves, and stays
with two zones. In each part

    private  1/2   nodes and pods: single addresses of others would break up the /28 blocks that nodes take
    public   1/4   NAT gateways and load balancers
    intra    1/4   control-plane interfaces and interface endpoints: no route to the internet
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

MAX_ZONES = 4
# A VPC between these prefix lengths is one that AWS accepts. From a /20, every subnet of four zones is a /24 or larger; from
# a /24, every one of two zones is a /27 or larger, which load balancers need.
LARGEST_VPC_PREFIX = 16
_SMALLEST_QUARTERED, _SMALLEST_HALVED = 20, 24

# AWS keeps five addresses of every subnet: network, router, DNS, one for the future, broadcast.
RESERVED_PER_SUBNET = 5
_PREFIX_ADDRESSES = 16  # prefix delegation hands out /28 blocks
_INTERFACES = 2  # of a node, each with an address of its own
_WARM_PREFIXES = 1  # WARM_PREFIX_TARGET: one block is always held in advance


@dataclass(frozen=True)
class ZoneSubnets:
    """The three blocks of one availability zone."""

    zone: str
    public: IPv4Network
    private: IPv4Network
    intra: IPv4Network


@dataclass(frozen=True)
class SubnetPlan:
    """All blocks of one VPC, in the order of the zones that were asked for."""

    cidr: IPv4Network
    zones: tuple[ZoneSubnets, ...]

    @property
    def public(self) -> tuple[IPv4Network, ...]:
        """Public blocks, one per zone."""
        return tuple(zone.public for zone in self.zones)

    @property
    def private(self) -> tuple[IPv4Network, ...]:
        """Private blocks, one per zone."""
        return tuple(zone.private for zone in self.zones)

    @property
    def intra(self) -> tuple[IPv4Network, ...]:
        """Intra blocks, one per zone."""
        return tuple(zone.intra for zone in self.zones)


def zone_names(zones: Sequence[str] | int) -> tuple[str, ...]:
    """Return the zones of a network: their names in order, or "1", "2", … where only their number is known."""
    return tuple(str(number + 1) for number in range(zones)) if isinstance(zones, int) else tuple(zones)


def nat_zones(nat: str, zones: Sequence[str] | int) -> tuple[str, ...]:
    """Return the zones with a NAT gateway, each of which has a public address. `nat`: none, single or per_az."""
    names = zone_names(zones)
    return {"none": (), "single": names[:1], "per_az": names}[nat]


def plan(cidr: IPv4Network, zones: Sequence[str] | int) -> SubnetPlan:
    """Cut `cidr` for these zones: their names in order, or how many.

    Raises ValueError when the range is not /16../20 (../24 for two zones) or when there are not 1..4 distinct zones.
    """
    names = zone_names(zones)
    if not 1 <= len(names) <= MAX_ZONES or len(set(names)) != len(names):
        raise ValueError(f"a subnet plan takes 1 to {MAX_ZONES} distinct zones, not {list(names)}")
    smallest = smallest_prefix(len(names))
    if not LARGEST_VPC_PREFIX <= cidr.prefixlen <= smallest:
        raise ValueError(f"a subnet plan of {len(names)} zones takes a /{LARGEST_VPC_PREFIX} to /{smallest}, not {cidr}")
    parts = cidr.subnets(prefixlen_diff=2 if cidr.prefixlen <= _SMALLEST_QUARTERED else 1)
    return SubnetPlan(cidr, tuple(_cut(name, part) for name, part in zip(names, parts, strict=False)))


def smallest_prefix(zones: int) -> int:
    """Return the longest prefix of a VPC that so many zones have room in."""
    return _SMALLEST_HALVED if zones <= 2 else _SMALLEST_QUARTERED


def _cut(zone: str, part: IPv4Network) -> ZoneSubnets:
    private, rest = part.subnets(prefixlen_diff=1)
    public, intra = rest.subnets(prefixlen_diff=1)
    return ZoneSubnets(zone, public, private, intra)


def addresses_per_node(max_pods: int) -> int:
    """Return how many addresses one node takes from its subnet with prefix delegation.

    Whole /28 blocks for `max_pods` pods, one block in advance, and the primary address of each network interface.
    """
    return _PREFIX_ADDRESSES * (math.ceil(max_pods / _PREFIX_ADDRESSES) + _WARM_PREFIXES) + _INTERFACES


def fewest_addresses_per_node() -> int:
    """Return how many addresses a node with pods needs at least: one block, and those of the network interfaces."""
    return _PREFIX_ADDRESSES + _INTERFACES


def usable_addresses(subnet: IPv4Network) -> int:
    """Return how many addresses of a subnet AWS does not keep for itself."""
    return subnet.num_addresses - RESERVED_PER_SUBNET
