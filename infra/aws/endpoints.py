"""VPC endpoints: routes from the private subnets to AWS that avoid the internet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from spec.endpoints import INTERFACE_SERVICES, Profile, gateway_service, interface_service


@dataclass(frozen=True)
class EndpointsArgs:
    vpc_id: pulumi.Input[str]
    vpc_cidr: str
    region: str
    profile: Profile
    subnet_ids: Sequence[pulumi.Input[str]]
    """The subnets of the interface endpoints: one per zone, and none in which nodes take /28 blocks."""
    route_table_ids: Sequence[pulumi.Input[str]]
    """Route tables with a route to S3 through the gateway endpoint."""
    tags: Mapping[str, str]


class Endpoints(pulumi.ComponentResource):
    """The S3 gateway endpoint, always, and the interface endpoints of a profile behind one security group."""

    def __init__(self, name: str, args: EndpointsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:network:Endpoints", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        aws.ec2.VpcEndpoint(
            f"{name}-s3",
            vpc_id=args.vpc_id,
            service_name=gateway_service("s3", args.region),
            vpc_endpoint_type="Gateway",
            route_table_ids=args.route_table_ids,
            tags={**args.tags, "Name": f"{name}-s3"},
            opts=child,
        )
        services = INTERFACE_SERVICES[args.profile]
        if services:
            group_id = self._security_group(name, args, child)
            for service in services:
                aws.ec2.VpcEndpoint(
                    f"{name}-{service.replace('.', '-')}",
                    vpc_id=args.vpc_id,
                    service_name=interface_service(service, args.region),
                    vpc_endpoint_type="Interface",
                    subnet_ids=args.subnet_ids,
                    security_group_ids=[group_id],
                    private_dns_enabled=True,
                    tags={**args.tags, "Name": f"{name}-{service}"},
                    opts=child,
                )
        self.register_outputs({})

    def _security_group(self, name: str, args: EndpointsArgs, child: pulumi.ResourceOptions) -> pulumi.Output[str]:
        group = aws.ec2.SecurityGroup(
            f"{name}-security-group",
            vpc_id=args.vpc_id,
            description="HTTPS from the VPC to the interface endpoints",
            tags={**args.tags, "Name": f"{name}-endpoints"},
            opts=child,
        )
        # Allow the whole VPC instead of selected groups: a node with a forgotten group fails to join without an error
        # message: docs/facts/eks.md#security-group-of-endpoints.
        aws.vpc.SecurityGroupIngressRule(
            f"{name}-https",
            security_group_id=group.id,
            description="HTTPS from anywhere in the VPC",
            ip_protocol="tcp",
            from_port=443,
            to_port=443,
            cidr_ipv4=args.vpc_cidr,
            tags=args.tags,
            opts=child,
        )
        return group.id
