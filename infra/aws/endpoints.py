"""VPC endpoints: the ways from the private subnets to AWS that do not lead through the internet."""

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
    """Where the interface endpoints have their addresses: one subnet per zone, and none that nodes take /28 blocks from."""
    route_table_ids: Sequence[pulumi.Input[str]]
    """Route tables that lead to S3 through the gateway endpoint."""
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
        # The whole VPC, not chosen groups: a node whose group was forgotten here fails to join, without a word
        # about why: docs/facts/eks.md#security-group-of-endpoints.
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
