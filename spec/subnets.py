"""How the VPC's address range is divided into subnets, and how many addresses a node needs. Arithmetic only.

The range is divided into four quarters, one per availability zone, even if the fourth zone is unused. So adding a zone later
never moves (and never replaces) an existing subnet. A range smaller than a /20 is divided into two halves, for at most two
zones. Each part contains:

    private  1/2   nodes and pods; other single addresses would break up the /28 blocks that nodes take
    public   1/4   NAT gateways and load balancers
    intra    1/4   control-plane interfaces and interface endpoints: no route to the internet
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

MAX_ZONES = 4
# AWS accepts VPCs between these prefix lengths. From a /20, each subnet of four zones is at least a /24. From a /24, each
# subnet of two zones is at least a /27, which load balancers require.
LARGEST_VPC_PREFIX = 16
_SMALLEST_QUARTERED, _SMALLEST_HALVED = 20, 24

# AWS reserves five addresses in every subnet: network, router, DNS, future use, broadcast.
RESERVED_PER_SUBNET = 5
_PREFIX_ADDRESSES = 16  # prefix delegation assigns /28 blocks
_INTERFACES = 2  # per node, each with its own address
_WARM_PREFIXES = 1  # WARM_PREFIX_TARGET: one block is always reserved in advance


@dataclass(frozen=True)
class ZoneSubnets:
    """The three blocks of one availability zone."""

    zone: str
    public: IPv4Network
    private: IPv4Network
    intra: IPv4Network


@dataclass(frozen=True)
class SubnetPlan:
    """All blocks of one VPC, in the order of the requested zones."""

    cidr: IPv4Network
    zones: tuple[ZoneSubnets, ...]

    @property
    def public(self) -> tuple[IPv4Network, ...]:
        """Return the public blocks, one per zone."""
        return tuple(zone.public for zone in self.zones)

    @property
    def private(self) -> tuple[IPv4Network, ...]:
        """Return the private blocks, one per zone."""
        return tuple(zone.private for zone in self.zones)

    @property
    def intra(self) -> tuple[IPv4Network, ...]:
        """Return the intra blocks, one per zone."""
        return tuple(zone.intra for zone in self.zones)


def zone_names(zones: Sequence[str] | int) -> tuple[str, ...]:
    """Return the zones of a network: their names in order, or "1", "2", … if only their number is known."""
    return tuple(str(number + 1) for number in range(zones)) if isinstance(zones, int) else tuple(zones)


def nat_zones(nat: str, zones: Sequence[str] | int) -> tuple[str, ...]:
    """Return the zones with a NAT gateway, each of which has a public address. `nat`: none, single or per_az."""
    names = zone_names(zones)
    return {"none": (), "single": names[:1], "per_az": names}[nat]


def plan(cidr: IPv4Network, zones: Sequence[str] | int) -> SubnetPlan:
    """Divide `cidr` for these zones, given as names in order or as a number.

    Raises ValueError if the range is not /16 to /20 (/24 for two zones), or if there are not 1 to 4 distinct zones.
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
    """Return the longest VPC prefix with room for this many zones."""
    return _SMALLEST_HALVED if zones <= 2 else _SMALLEST_QUARTERED


def _cut(zone: str, part: IPv4Network) -> ZoneSubnets:
    private, rest = part.subnets(prefixlen_diff=1)
    public, intra = rest.subnets(prefixlen_diff=1)
    return ZoneSubnets(zone, public, private, intra)


def addresses_per_node(max_pods: int) -> int:
    """Return how many addresses a node needs in its subnet with prefix delegation.

    These are whole /28 blocks for `max_pods` pods, one block in advance, and the primary address of each network interface.
    """
    return _PREFIX_ADDRESSES * (math.ceil(max_pods / _PREFIX_ADDRESSES) + _WARM_PREFIXES) + _INTERFACES


def fewest_addresses_per_node() -> int:
    """Return the minimum of addresses for a node with pods: one block and its network interfaces."""
    return _PREFIX_ADDRESSES + _INTERFACES


def usable_addresses(subnet: IPv4Network) -> int:
    """Return how many addresses of a subnet AWS does not reserve."""
    return subnet.num_addresses - RESERVED_PER_SUBNET
