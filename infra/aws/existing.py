"""Look up the existing VPC and cluster of a stack file before any resource is registered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any, TypeVar

import pulumi
import pulumi_aws as aws

from infra.aws.network_access import NetworkAccess
from spec.endpoints import interface_service
from spec.existing import cluster as cluster_facts
from spec.existing import network as network_facts
from spec.existing.cluster import ClusterFacts
from spec.existing.network import ENDPOINTS, SubnetFacts, VpcFacts, has_no_way_out, subnet_ids
from spec.problem import Problem, SettingsError
from spec.settings import Settings
from spec.settings.existing import ExistingNetwork

_ANYWHERE = "0.0.0.0/0"
_Found = TypeVar("_Found")


@dataclass(frozen=True)
class Existing:
    """The existing network and cluster, each None if this program creates it."""

    network: NetworkAccess | None = None
    cluster: ClusterFacts | None = None


def look_up(settings: Settings, source: str) -> Existing:
    """Return the existing resources of the stack file. Raises SettingsError about `source` with all their problems."""
    network, cluster = settings.network.existing, settings.cluster.existing
    problems: list[Problem] = []
    vpc = read_vpc(network, settings.region) if network is not None else None
    if network is not None:
        problems += network_facts.mistakes(settings, network, vpc)
    found = read_cluster(cluster.name) if cluster is not None else None
    if cluster is not None:
        problems += cluster_facts.mistakes(settings, cluster, found)
    if problems:
        raise SettingsError(source, problems)
    return Existing(_access(network, vpc) if network is not None and vpc is not None else None, found)


def read_vpc(existing: ExistingNetwork, region: str) -> VpcFacts | None:
    """Return EC2's data of the VPC and the listed subnets; None if the VPC does not exist."""
    if not aws.ec2.get_vpcs(filters=[{"name": "vpc-id", "values": [existing.vpc_id]}]).ids:
        return None
    vpc = aws.ec2.get_vpc(id=existing.vpc_id)
    wanted = sorted({id for _, _, id in subnet_ids(existing)})
    routes = _default_routes(existing.vpc_id)
    subnets = {}
    for id in aws.ec2.get_subnets(filters=[{"name": "subnet-id", "values": wanted}]).ids:
        subnet = aws.ec2.get_subnet(id=id)
        subnets[id] = SubnetFacts(
            id=id,
            vpc_id=subnet.vpc_id,
            zone=subnet.availability_zone,
            cidr=IPv4Network(subnet.cidr_block),
            tags=dict(subnet.tags),
            default_route=routes.get(id, routes.get("")),
        )
    asked = ENDPOINTS if has_no_way_out(existing, subnets) else ()
    return VpcFacts(
        id=vpc.id,
        cidrs=tuple(IPv4Network(known.cidr_block) for known in vpc.cidr_block_associations if known.state == "associated"),
        dns_support=vpc.enable_dns_support,
        dns_hostnames=vpc.enable_dns_hostnames,
        tags=dict(vpc.tags),
        subnets=subnets,
        endpoints=frozenset(
            service for service in asked if _has_endpoint(existing.vpc_id, interface_service(service, region))
        ),
    )


def read_cluster(name: str) -> ClusterFacts | None:
    """Return EKS's data of a cluster and IAM's OIDC provider for its issuer; None if the cluster does not exist."""
    if name not in aws.eks.get_clusters().names:
        return None
    found = aws.eks.get_cluster(name=name)
    # These lists are empty until EKS has created the cluster.
    issuer = next((oidc.issuer for identity in found.identities for oidc in identity.oidcs), "").removeprefix("https://")
    _, partition, _, _, account_id, _ = found.arn.split(":", maxsplit=5)
    provider = f"arn:{partition}:iam::{account_id}:oidc-provider/{issuer}"
    there = none_if("NoSuchEntity", lambda: aws.iam.get_open_id_connect_provider(arn=provider)) if issuer else None
    return ClusterFacts(
        name=name,
        arn=found.arn,
        version=found.version,
        status=found.status,
        endpoint=found.endpoint,
        certificate_authority=next((authority.data for authority in found.certificate_authorities), ""),
        issuer=issuer,
        authentication_mode=next((access.authentication_mode for access in found.access_configs), "CONFIG_MAP"),
        vpc_id=found.vpc_config.vpc_id,
        security_group_id=found.vpc_config.cluster_security_group_id,
        oidc_provider_arn=there.arn if there is not None else None,
    )


def _access(existing: ExistingNetwork, vpc: VpcFacts) -> NetworkAccess:
    private = existing.private_subnet_ids
    return NetworkAccess(
        vpc_id=vpc.id,
        cidrs=[str(cidr) for cidr in vpc.cidrs],
        private_subnet_ids={zone: pulumi.Output.from_input(id) for zone, id in private.items()},
        control_plane_subnet_ids=list(existing.private_subnet_ids.values()),
        internet=not has_no_way_out(existing, vpc.subnets),
        load_balancer_subnet_ids={
            "internal": list(private.values()),
            "public": list(existing.public_subnet_ids.values()),
        },
    )


def _default_routes(vpc_id: str) -> dict[str, str | None]:
    """Return the target of each subnet's default route; the key "" is for subnets without their own route table."""
    found: dict[str, str | None] = {}
    for id in aws.ec2.get_route_tables(vpc_id=vpc_id).ids:
        table = aws.ec2.get_route_table(route_table_id=id)
        target = next((_target(route) for route in table.routes if route.cidr_block == _ANYWHERE), None)
        for association in table.associations:
            if association.main or association.subnet_id:  # otherwise it is a gateway's, for ingress traffic
                found["" if association.main else association.subnet_id] = target
    return found


def _target(route: Any) -> str | None:
    """Return the target of a route: AWS sets one of these fields and leaves the others empty."""
    targets = (
        route.nat_gateway_id,
        route.transit_gateway_id,
        route.gateway_id,
        route.network_interface_id,
        route.instance_id,
        route.vpc_peering_connection_id,
        route.core_network_arn,
        route.local_gateway_id,
        route.carrier_gateway_id,
    )
    return next((target for target in targets if target), None)


def _has_endpoint(vpc_id: str, service: str) -> bool:
    try:
        found = none_if(
            "no matching EC2 VPC Endpoint found", lambda: aws.ec2.get_vpc_endpoint(vpc_id=vpc_id, service_name=service)
        )
    except Exception as error:
        if "multiple EC2 VPC Endpoints matched" in str(error):
            return True
        raise
    return found is not None


def none_if(missing: str, ask: Callable[[], _Found]) -> _Found | None:
    """Return the result of an AWS provider function; None if its error has this text, which means not found.

    The texts are from terraform-provider-aws (`SingularDataSourceFindError` in internal/tfresource) and from IAM itself.
    """
    try:
        return ask()
    except Exception as error:
        if missing in str(error):
            return None
        raise
