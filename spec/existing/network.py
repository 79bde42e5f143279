"""An existing VPC: its facts from AWS, and the problems that they cause for the stack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network

from spec.endpoints import INTERFACE_SERVICES
from spec.ownership import Ownership, Tags
from spec.problem import Problem
from spec.settings import Settings
from spec.settings.existing import ExistingNetwork
from spec.settings.relations.network import addresses_per_zone, image_without_the_internet
from spec.subnets import usable_addresses

ENDPOINTS = ("s3", *INTERFACE_SERVICES["full"])
"""The services whose endpoints nodes need in a subnet without a default route, as with `endpoints: full`."""
_PATH = "network.existing"


@dataclass(frozen=True)
class SubnetFacts:
    """A subnet. `default_route` is the id of the target of its route to 0.0.0.0/0, or None without such a route."""

    id: str
    vpc_id: str
    zone: str
    cidr: IPv4Network
    tags: Tags
    default_route: str | None

    @property
    def public(self) -> bool:
        """Return whether its default route is an internet gateway, which works only for public addresses."""
        return self.default_route is not None and self.default_route.startswith("igw-")


@dataclass(frozen=True)
class VpcFacts:
    """A VPC with the existing subnets that a stack file names, by id.

    `endpoints` are the services of `ENDPOINTS` that have an endpoint. They are read only if a private subnet has no default
    route.
    """

    id: str
    cidrs: tuple[IPv4Network, ...]
    dns_support: bool
    dns_hostnames: bool
    tags: Tags
    subnets: Mapping[str, SubnetFacts]
    endpoints: frozenset[str] = frozenset()


def subnet_ids(existing: ExistingNetwork) -> Iterator[tuple[str, str, str]]:
    """Yield each subnet of the stack file as its path there, its zone there and its id."""
    kinds = {
        "privateSubnetIds": existing.private_subnet_ids,
        "publicSubnetIds": existing.public_subnet_ids,
    }
    for key, by_zone in kinds.items():
        for zone, subnet_id in by_zone.items():
            yield f"{_PATH}.{key}.{zone}", zone, subnet_id


def has_no_way_out(existing: ExistingNetwork, subnets: Mapping[str, SubnetFacts]) -> bool:
    """Return whether a private subnet has no default route, so its nodes need endpoints."""
    return any(subnets[id].default_route is None for id in existing.private_subnet_ids.values() if id in subnets)


def mistakes(settings: Settings, existing: ExistingNetwork, vpc: VpcFacts | None) -> list[Problem]:
    """Return all problems that prevent the stack from working in the VPC; `vpc` is None if it does not exist."""
    if vpc is None:
        return [
            Problem(f"{_PATH}.vpcId", f"there is no {existing.vpc_id} in {settings.region} that these credentials may see")
        ]
    return [
        *_names(vpc),
        *_ours(settings, existing, vpc),
        *_places(existing, vpc),
        *_ways(existing, vpc),
        *_images(settings, existing, vpc),
        *_room(settings, existing, vpc),
    ]


def _names(vpc: VpcFacts) -> Iterator[Problem]:
    """Require both DNS attributes. Nodes need them to resolve the API server (EKS user guide, "VPC requirements")."""
    for on, attribute, option in (
        (vpc.dns_support, "enableDnsSupport", "--enable-dns-support"),
        (vpc.dns_hostnames, "enableDnsHostnames", "--enable-dns-hostnames"),
    ):
        if not on:
            yield Problem(
                f"{_PATH}.vpcId",
                f"{vpc.id} has {attribute} off, and nodes would not find the API server; "
                f"aws ec2 modify-vpc-attribute --vpc-id {vpc.id} {option}",
            )


def _ours(settings: Settings, existing: ExistingNetwork, vpc: VpcFacts) -> Iterator[Problem]:
    """Refuse resources with the tags by which `destroy` finds the stack's own resources."""
    owner = Ownership.of(settings)
    tagged = [(f"{_PATH}.vpcId", vpc.id, vpc.tags)]
    tagged += [(path, id, vpc.subnets[id].tags) for path, _, id in subnet_ids(existing) if id in vpc.subnets]
    for path, id, tags in tagged:
        reason = owner.reason(tags)
        if reason is not None:
            yield Problem(
                path, f"{id} is tagged {reason}, as what this stack makes and takes away again; remove the tag from it"
            )


def _places(existing: ExistingNetwork, vpc: VpcFacts) -> Iterator[Problem]:
    for path, zone, id in subnet_ids(existing):
        found = vpc.subnets.get(id)
        if found is None:
            yield Problem(path, f"there is no {id} that these credentials may see")
        elif found.vpc_id != vpc.id:
            yield Problem(path, f"{id} is in {found.vpc_id}; give a subnet of {vpc.id}")
        elif found.zone != zone:
            yield Problem(path, f"{id} is in {found.zone}; name it there, and a subnet of {zone} here")


def _ways(existing: ExistingNetwork, vpc: VpcFacts) -> Iterator[Problem]:
    missing = [service for service in ENDPOINTS if service not in vpc.endpoints]
    for zone, id in existing.private_subnet_ids.items():
        found, path = vpc.subnets.get(id), f"{_PATH}.privateSubnetIds.{zone}"
        if found is None or found.vpc_id != vpc.id:
            continue
        if found.public:
            yield Problem(
                path,
                f"{id} is public: its default route leads to {found.default_route}, over which nodes without a public "
                "address reach nothing; give a subnet whose default route leads to a NAT gateway or a transit gateway",
            )
        elif found.default_route is None and missing:
            yield Problem(
                path,
                f"{id} has no default route, and {vpc.id} no endpoint for {', '.join(missing)}: nodes could not join; give "
                "it a route to a NAT gateway or a transit gateway, or the VPC these endpoints",
            )
    for zone, id in existing.public_subnet_ids.items():
        found = vpc.subnets.get(id)
        if found is not None and found.vpc_id == vpc.id and not found.public:
            yield Problem(
                f"{_PATH}.publicSubnetIds.{zone}",
                f"{id} has no default route to an internet gateway, so that nobody would reach a load balancer in it; "
                "give a public subnet",
            )


def _images(settings: Settings, existing: ExistingNetwork, vpc: VpcFacts) -> Iterator[Problem]:
    if has_no_way_out(existing, vpc.subnets):
        why = "from private subnets without a default route"
        yield from image_without_the_internet(settings.triton.image, settings.region, why)


def _room(settings: Settings, existing: ExistingNetwork, vpc: VpcFacts) -> Iterator[Problem]:
    """Compare with the size of the subnets. The free addresses change, and `stackctl preflight` reports them."""
    needed = addresses_per_zone(settings, tuple(existing.private_subnet_ids), full=False)
    for zone, id in existing.private_subnet_ids.items():
        found = vpc.subnets.get(id)
        if found is not None and needed[zone] > usable_addresses(found.cidr):
            yield Problem(
                f"{_PATH}.privateSubnetIds.{zone}",
                f"{id} ({found.cidr}) has {usable_addresses(found.cidr)} addresses and the nodes need {needed[zone]} at "
                "least (every node group at max, one block of 16 for the pods of each node); give a larger subnet or lower "
                "max",
            )
