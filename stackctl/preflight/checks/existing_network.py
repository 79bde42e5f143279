"""Check that an existing VPC meets the stack's requirements, by the program's rules (`spec.existing.network`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network
from typing import Any

from spec.endpoints import interface_service
from spec.existing.network import ENDPOINTS, SubnetFacts, VpcFacts, has_no_way_out, mistakes, subnet_ids
from spec.ownership import tags_of
from spec.settings.existing import ExistingNetwork
from stackctl.preflight.checks.check import Finding, Subject, fail, ok

_ANYWHERE = "0.0.0.0/0"
_TARGETS = (
    "NatGatewayId",
    "TransitGatewayId",
    "GatewayId",
    "NetworkInterfaceId",
    "InstanceId",
    "VpcPeeringConnectionId",
    "CoreNetworkArn",
    "LocalGatewayId",
    "CarrierGatewayId",
)
"""The keys of a route's target: EC2 returns one of them."""


def check(subject: Subject) -> Iterator[Finding]:
    """Yield the VPC's problems, or one finding that it meets the requirements."""
    existing = subject.settings.network.existing
    if existing is None:
        yield ok("the stack makes its own VPC")
        return
    vpc = _read(subject, existing)
    found = mistakes(subject.settings, existing, vpc)
    for problem in found:
        message, _, remedy = str(problem).partition("; ")
        yield fail(message, remedy or "correct network.existing in the stack file")
    if not found and vpc is not None:
        ways = {subnet.default_route or "endpoints" for subnet in vpc.subnets.values() if not subnet.public}
        yield ok(f"{vpc.id}: {len(vpc.subnets)} subnets, names on, nodes go out by {', '.join(sorted(ways))}")


def _read(subject: Subject, existing: ExistingNetwork) -> VpcFacts | None:
    ec2 = subject.readers("ec2")
    found = ec2.describe_vpcs(Filters=[{"Name": "vpc-id", "Values": [existing.vpc_id]}])["Vpcs"]
    if not found:
        return None
    wanted = sorted({id for _, _, id in subnet_ids(existing)})
    routes = _default_routes(ec2, existing.vpc_id)
    subnets = {
        subnet["SubnetId"]: SubnetFacts(
            id=subnet["SubnetId"],
            vpc_id=subnet["VpcId"],
            zone=subnet["AvailabilityZone"],
            cidr=IPv4Network(subnet["CidrBlock"]),
            tags=tags_of(subnet.get("Tags")),
            default_route=routes.get(subnet["SubnetId"], routes.get("")),
        )
        for subnet in ec2.describe_subnets(Filters=[{"Name": "subnet-id", "Values": wanted}])["Subnets"]
    }
    blocks = found[0]["CidrBlockAssociationSet"]
    return VpcFacts(
        id=existing.vpc_id,
        cidrs=tuple(IPv4Network(b["CidrBlock"]) for b in blocks if b["CidrBlockState"]["State"] == "associated"),
        dns_support=_attribute(ec2, existing.vpc_id, "enableDnsSupport"),
        dns_hostnames=_attribute(ec2, existing.vpc_id, "enableDnsHostnames"),
        tags=tags_of(found[0].get("Tags")),
        subnets=subnets,
        endpoints=_endpoints(subject, existing.vpc_id) if has_no_way_out(existing, subnets) else frozenset(),
    )


def _attribute(ec2: Any, vpc_id: str, name: str) -> bool:
    answer = ec2.describe_vpc_attribute(VpcId=vpc_id, Attribute=name)
    return bool(answer[f"{name[0].upper()}{name[1:]}"]["Value"])


def _default_routes(ec2: Any, vpc_id: str) -> Mapping[str, str | None]:
    """Return the target of each subnet's default route; key "" is for subnets without their own table."""
    found: dict[str, str | None] = {}
    of_it = [{"Name": "vpc-id", "Values": [vpc_id]}]
    for page in ec2.get_paginator("describe_route_tables").paginate(Filters=of_it):
        for table in page["RouteTables"]:
            default: dict[str, str] = next(
                (
                    route
                    for route in table["Routes"]
                    # A blackhole route has a deleted target, so it leads to no network.
                    if route.get("DestinationCidrBlock") == _ANYWHERE and route.get("State") != "blackhole"
                ),
                {},
            )
            target = next((default[key] for key in _TARGETS if default.get(key)), None)
            for association in table["Associations"]:
                if association.get("Main") or association.get("SubnetId"):  # else a gateway's, for ingress
                    found["" if association.get("Main") else association["SubnetId"]] = target
    return found


def _endpoints(subject: Subject, vpc_id: str) -> frozenset[str]:
    names = {interface_service(service, subject.settings.region): service for service in ENDPOINTS}
    of_it = [{"Name": "vpc-id", "Values": [vpc_id]}]
    pages = subject.readers("ec2").get_paginator("describe_vpc_endpoints").paginate(Filters=of_it)
    living = [item for page in pages for item in page["VpcEndpoints"] if str(item["State"]).lower() == "available"]
    return frozenset(names[item["ServiceName"]] for item in living if item["ServiceName"] in names)
