"""The VPC: public, private and intra subnets in every zone, their routes and the gateways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network

import pulumi
import pulumi_aws as aws

from infra.aws.endpoints import Endpoints, EndpointsArgs
from infra.aws.flow_logs import FlowLogs, FlowLogsArgs
from infra.aws.network_access import NetworkAccess
from infra.aws.stack import Stack
from spec import subnets
from spec.names import flow_log_group
from spec.settings.network import Network as NetworkSettings

_ANYWHERE = "0.0.0.0/0"


@dataclass(frozen=True)
class NetworkArgs:
    stack: Stack
    network: NetworkSettings
    zones: tuple[str, ...]
    """Their order decides which subnets they get."""
    control_plane_zones: tuple[str, ...]
    """The same zones, plus one if there is only one; the added zone has only a subnet for the control plane."""
    logs_key_arn: pulumi.Input[str]


class Network(pulumi.ComponentResource):
    """A VPC with private nodes, control-plane interfaces without a route to the internet, and flow logs.

    None of our security groups has the tag `kubernetes.io/cluster/<name>`. EKS's own group has it, and the load balancer
    controller fails if it finds two (docs/facts/eks.md#tag-of-security-groups).
    """

    vpc_id: pulumi.Output[str]
    public_subnet_ids: Mapping[str, pulumi.Output[str]]
    """By zone, for load balancers that face the internet."""
    private_subnet_ids: Mapping[str, pulumi.Output[str]]
    """By zone, for nodes and pods."""
    intra_subnet_ids: Mapping[str, pulumi.Output[str]]
    """By zone of the control plane, for its interfaces and the endpoints' interfaces. The only route out of the VPC is to
    S3."""

    access: NetworkAccess
    """The ids for other components."""

    def __init__(self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:network:Network", name, None, opts)
        self._name = name
        self._args = args
        self._child = pulumi.ResourceOptions(parent=self)
        stack, network = args.stack, args.network
        blocks = subnets.plan(network.cidr, args.control_plane_zones)

        vpc = aws.ec2.Vpc(
            f"{name}-vpc",
            cidr_block=str(network.cidr),
            enable_dns_support=True,
            # Private DNS of the interface endpoints and of the private API endpoint requires host names.
            enable_dns_hostnames=True,
            tags=stack.named(stack.cluster_name),
            opts=pulumi.ResourceOptions(parent=self, protect=stack.protected),
        )
        self.vpc_id = vpc.id
        # It has no rules and admits no traffic, so a resource without its own security group is isolated instead of open.
        aws.ec2.DefaultSecurityGroup(
            f"{name}-default-security-group",
            vpc_id=vpc.id,
            tags=stack.named(f"{stack.cluster_name}-default-locked"),
            opts=self._child,
        )
        self.public_subnet_ids = self._subnets("public", args.zones, blocks.public, {"kubernetes.io/role/elb": "1"})
        self.private_subnet_ids = self._subnets(
            "private",
            args.zones,
            blocks.private,
            {"kubernetes.io/role/internal-elb": "1", "karpenter.sh/discovery": stack.cluster_name},
        )
        self.intra_subnet_ids = self._subnets("intra", args.control_plane_zones, blocks.intra, {})

        nat_ids = self._ways_out()
        inner_tables = [self._private_table(zone, nat_ids.get(zone)) for zone in args.zones]
        inner_tables.append(self._table("intra", self.intra_subnet_ids))

        Endpoints(
            f"{name}-endpoints",
            EndpointsArgs(
                vpc_id=vpc.id,
                vpc_cidr=str(network.cidr),
                region=stack.region,
                profile=network.endpoints,
                subnet_ids=[self.intra_subnet_ids[zone] for zone in args.zones],
                route_table_ids=inner_tables,
                tags=stack.tags,
            ),
            opts=self._child,
        )
        FlowLogs(
            f"{name}-flow-logs",
            FlowLogsArgs(
                stack=stack,
                vpc_id=vpc.id,
                log_group_name=flow_log_group(stack.cluster_name),
                retention_days=network.flow_log_retention_days,
                kms_key_arn=args.logs_key_arn,
            ),
            opts=self._child,
        )
        self.access = NetworkAccess(
            vpc_id=self.vpc_id,
            cidrs=[str(network.cidr)],
            private_subnet_ids=self.private_subnet_ids,
            control_plane_subnet_ids=list(self.intra_subnet_ids.values()),
            internet=network.nat != "none",
            load_balancer_subnet_ids={},
            ready=[self],
        )
        self.register_outputs(
            {
                "vpcId": self.vpc_id,
                "publicSubnetIds": self.public_subnet_ids,
                "privateSubnetIds": self.private_subnet_ids,
                "intraSubnetIds": self.intra_subnet_ids,
            }
        )

    def _subnets(
        self, tier: str, zones: Sequence[str], blocks: Sequence[IPv4Network], tags: Mapping[str, str]
    ) -> dict[str, pulumi.Output[str]]:
        stack = self._args.stack
        return {
            zone: aws.ec2.Subnet(
                f"{self._name}-{tier}-{zone}",
                vpc_id=self.vpc_id,
                availability_zone=zone,
                cidr_block=str(block),
                map_public_ip_on_launch=False,
                tags={**stack.named(f"{stack.cluster_name}-{tier}-{zone}"), **tags},
                opts=self._child,
            ).id
            for zone, block in zip(zones, blocks[: len(zones)], strict=True)
        }

    def _ways_out(self) -> dict[str, pulumi.Output[str]]:
        """Create the internet gateway and the NAT gateways; return the NAT gateway's id for each zone, if any."""
        stack, zones = self._args.stack, self._args.zones
        gateway = aws.ec2.InternetGateway(
            f"{self._name}-internet-gateway",
            vpc_id=self.vpc_id,
            tags=stack.named(stack.cluster_name),
            opts=self._child,
        )
        public_table = self._table("public", self.public_subnet_ids)
        default_route = aws.ec2.Route(
            f"{self._name}-public-default",
            route_table_id=public_table,
            destination_cidr_block=_ANYWHERE,
            gateway_id=gateway.id,
            opts=self._child,
        )
        # Without the route to the internet, a NAT gateway would be created but not work yet.
        after_route = pulumi.ResourceOptions(parent=self, depends_on=[default_route])
        gateways = {zone: self._nat_gateway(zone, after_route) for zone in subnets.nat_zones(self._args.network.nat, zones)}
        if self._args.network.nat == "single":
            return dict.fromkeys(zones, gateways[zones[0]])
        return gateways

    def _nat_gateway(self, zone: str, opts: pulumi.ResourceOptions) -> pulumi.Output[str]:
        tags = self._args.stack.named(f"{self._args.stack.cluster_name}-nat-{zone}")
        address = aws.ec2.Eip(f"{self._name}-nat-address-{zone}", domain="vpc", tags=tags, opts=self._child)
        return aws.ec2.NatGateway(
            f"{self._name}-nat-{zone}",
            allocation_id=address.id,
            subnet_id=self.public_subnet_ids[zone],
            tags=tags,
            opts=opts,
        ).id

    def _private_table(self, zone: str, nat_id: pulumi.Output[str] | None) -> pulumi.Output[str]:
        table = self._table(f"private-{zone}", {zone: self.private_subnet_ids[zone]})
        if nat_id is not None:
            aws.ec2.Route(
                f"{self._name}-private-default-{zone}",
                route_table_id=table,
                destination_cidr_block=_ANYWHERE,
                nat_gateway_id=nat_id,
                opts=self._child,
            )
        return table

    def _table(self, label: str, subnet_ids: Mapping[str, pulumi.Output[str]]) -> pulumi.Output[str]:
        """Return a new route table for these subnets."""
        stack = self._args.stack
        table = aws.ec2.RouteTable(
            f"{self._name}-{label}-routes",
            vpc_id=self.vpc_id,
            tags=stack.named(f"{stack.cluster_name}-{label}"),
            opts=self._child,
        )
        tier = label.split("-", maxsplit=1)[0]
        for zone, subnet_id in subnet_ids.items():
            aws.ec2.RouteTableAssociation(
                f"{self._name}-{tier}-{zone}-association",
                subnet_id=subnet_id,
                route_table_id=table.id,
                opts=self._child,
            )
        return table.id
