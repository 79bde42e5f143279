"""The VPC of a stack: `triton-eks:network`."""

from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import ClassVar, Literal

from pydantic import Field

from spec.problem import Problem
from spec.settings.addresses import Cidr
from spec.settings.existing import ExistingNetwork, nothing_beside_existing
from spec.settings.fields import LogRetention, Zones
from spec.settings.rule import Place, rule, warning
from spec.settings.section import Section
from spec.subnets import LARGEST_VPC_PREFIX, smallest_prefix, zone_names

_PRIVATE_RANGES = tuple(
    IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "198.18.0.0/15")
)
_ONE_ZONE = ("local", "dev")
# EKS takes the cluster's service addresses from one of these, from whichever does not overlap the VPC.
_SERVICE_RANGES = tuple(IPv4Network(text) for text in ("10.100.0.0/16", "172.20.0.0/16"))


class Network(Section):
    """The VPC."""

    guide: ClassVar[str] = "docs/aws.md"
    only_without_existing = frozenset({"cidr", "zones", "nat", "endpoints", "flow_log_retention_days"})

    cidr: Cidr = Field(description="the address range of the VPC, /16 to /20, or to /24 for two zones, like 10.40.0.0/16")
    zones: Zones = Field(
        description="how many availability zones nodes are in (1 to 4, 1 in local and dev only), or a list of their names"
    )
    nat: Literal["none", "single", "per_az"] = Field(description="NAT gateways: none, single or per_az")
    endpoints: Literal["none", "minimal", "full"] = Field(description="interface endpoints: none, minimal or full")
    flow_log_retention_days: LogRetention = Field(description="days that VPC flow logs are kept, like 90")
    existing: ExistingNetwork | None = Field(
        default=None, description="a VPC and subnets that are there already; without it: one is made, of the other keys"
    )

    @property
    def node_zones(self) -> int | tuple[str, ...]:
        """Return the zones of the nodes, as a number or as names. In an existing VPC, return the zones of its subnets."""
        return tuple(self.existing.private_subnet_ids) if self.existing is not None else self.zones

    def path_of_zone(self, index: int, zone: str) -> str:
        """Return the path of a zone in the stack file."""
        return f"network.existing.privateSubnetIds.{zone}" if self.existing is not None else f"network.zones[{index}]"

    @rule
    def _nothing_of_a_new_one_beside_existing(self, at: Place) -> Iterator[Problem]:
        """Require cidr, zones, nat, endpoints and flowLogRetentionDays, or `existing` and none of them."""
        yield from nothing_beside_existing(self, at, "the VPC is there already, and this program does not change it")

    @rule
    def _cidr_is_private(self, at: Place) -> Iterator[Problem]:
        """Require a private range."""
        if not any(self.cidr.subnet_of(private) for private in _PRIVATE_RANGES):
            listed = ", ".join(str(private) for private in _PRIVATE_RANGES)
            yield at.problem("cidr", f"{self.cidr} is not a private range; use one inside {listed}")

    @rule
    def _cidr_is_of_a_usable_size(self, at: Place) -> Iterator[Problem]:
        """Require a range of /16, the largest that AWS allows, to /20. With one or two zones, /24 is the smallest."""
        zones = len(zone_names(self.zones))
        smallest = smallest_prefix(zones)
        if self.cidr.prefixlen < LARGEST_VPC_PREFIX:
            yield at.problem("cidr", f"{self.cidr} is larger than AWS allows; use a /{LARGEST_VPC_PREFIX} to /{smallest}")
        if self.cidr.prefixlen > smallest:
            yield at.problem(
                "cidr",
                f"{self.cidr} is too small for three subnets in each of {'four' if zones > 2 else 'two'} zones; "
                f"use a /{LARGEST_VPC_PREFIX} to /{smallest}",
            )

    @rule
    def _cidr_leaves_services_alone(self, at: Place) -> Iterator[Problem]:
        """Refuse a range from which EKS may assign addresses to Kubernetes services."""
        for services in _SERVICE_RANGES:
            if self.cidr.overlaps(services):
                yield at.problem(
                    "cidr",
                    f"{self.cidr} overlaps {services}, from which EKS may take Kubernetes services; use another range",
                )

    @rule
    def _zones_are_distinct(self, at: Place) -> Iterator[Problem]:
        """Require each zone once."""
        zones = () if isinstance(self.zones, int) else self.zones
        for index, zone in enumerate(zones):
            if zone in zones[:index]:
                yield at.problem(f"zones[{index}]", f"'{zone}' is listed twice; list each zone once")

    @rule
    def _zones_are_two(self, at: Place) -> Iterator[Problem]:
        """Require at least two zones, except in local and dev."""
        found = self.node_zones
        zones = found if isinstance(found, int) else len(found)
        if zones < 2 and at.environment not in _ONE_ZONE:
            key = "zones" if self.existing is None else "existing.privateSubnetIds"
            yield at.problem(key, f"every outage of its one zone would be one of {at.stack}; use 2 to 4 zones")

    @rule
    def _nodes_can_join(self, at: Place) -> Iterator[Problem]:
        """Require all interface endpoints if there is no NAT. Nodes have no other way to reach AWS."""
        if self.nat == "none" and self.endpoints != "full":
            yield at.problem(
                "nat",
                f"'none' with endpoints '{self.endpoints}' leaves nodes no way to join the cluster or to pull images; "
                "use single or per_az, or endpoints: full",
            )

    @warning
    def _device_plugin_needs_a_mirror(self, at: Place) -> Iterator[Problem]:
        """Warn that without NAT the device plugin's image has to come from a mirror."""
        if self.nat == "none":
            yield at.problem(
                "nat",
                "without NAT no node reaches nvcr.io, from which the device plugin comes, and no GPU would be advertised; "
                "mirror nvidia/k8s-device-plugin to ECR and name it as image.repository in "
                "helm-values/nvidia-device-plugin/base.yaml",
            )
