"""Mistakes in network resources that AWS refuses; most of them moto alone lets through.

See docs/facts/moto.md#accepted-by-moto.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.twin.aws.refusals import Refusal, check, ids
from tests.twin.aws.world import (
    ADDRESS,
    ASSOCIATION,
    ENDPOINT,
    FLOW_LOG,
    GATEWAY,
    GROUP,
    INGRESS,
    LOG_GROUP,
    NAT,
    ROLE,
    ROUTE,
    SUBNET,
    VPC,
    World,
    network,
    other_network,
    trust,
)
from twin.aws.base.clients import Clients


@pytest.fixture(scope="module")
def world(clients: Clients) -> Iterator[World]:
    world = World(clients)
    network(world)
    other_network(world)
    world.make(GATEWAY, "detached")
    world.make(ADDRESS, "address", domain="vpc")
    world.make(ADDRESS, "spare", domain="vpc")
    world.make(NAT, "nat", subnetId=world.id("subnet-a"), allocationId=world.id("address"))
    world.make(ASSOCIATION, "association", subnetId=world.id("subnet-a"), routeTableId=world.id("table"))
    world.make(ROLE, "flow-role", assumeRolePolicy=trust("vpc-flow-logs.amazonaws.com"))
    world.make(ROLE, "lambda-role", assumeRolePolicy=trust("lambda.amazonaws.com"))
    world.make(LOG_GROUP, "flow-logs", name="/flow")
    interface = {"vpcEndpointType": "Interface", "subnetIds": [world.id("subnet-a")], "privateDnsEnabled": True}
    world.make(ENDPOINT, "sts", vpcId=world.id("vpc"), serviceName="com.amazonaws.us-west-2.sts", **interface)
    yield world


SUBNETS = [
    Refusal(
        "a VPC larger than /16",
        VPC,
        lambda w: {"cidrBlock": "10.0.0.0/8"},
        "aws:ec2/vpc:Vpc: cidrBlock: 10.0.0.0/8 is a /8; /16 to /28 is allowed",
    ),
    Refusal(
        "a CIDR with host bits",
        VPC,
        lambda w: {"cidrBlock": "10.0.1.0/16"},
        "aws:ec2/vpc:Vpc: cidrBlock: '10.0.1.0/16' is not an IPv4 CIDR block: 10.0.1.0/16 has host bits set",
    ),
    Refusal(
        "host names without DNS",
        VPC,
        lambda w: {"cidrBlock": "10.9.0.0/16", "enableDnsSupport": False, "enableDnsHostnames": True},
        "aws:ec2/vpc:Vpc: enableDnsHostnames: needs enableDnsSupport",
    ),
    Refusal(
        "a subnet outside its VPC",
        SUBNET,
        lambda w: {"vpcId": w.id("vpc"), "cidrBlock": "10.9.0.0/24"},
        "subnet 10.9.0.0/24 is outside VPC {vpc} (10.0.0.0/16)",
    ),
    Refusal(
        "a subnet over another",
        SUBNET,
        lambda w: {"vpcId": w.id("vpc"), "cidrBlock": "10.0.0.0/24"},
        "CreateSubnet: InvalidSubnet.Conflict: The CIDR '10.0.0.0/24' conflicts with another subnet",
    ),
    Refusal(
        "a subnet of an unknown VPC",
        SUBNET,
        lambda w: {"vpcId": "vpc-0", "cidrBlock": "10.0.9.0/24"},
        "subnet: vpc vpc-0 does not exist in us-west-2",
    ),
]

ROUTES = [
    Refusal(
        "a route to a detached gateway",
        ROUTE,
        lambda w: {"routeTableId": w.id("table"), "destinationCidrBlock": "0.0.0.0/0", "gatewayId": w.id("detached")},
        "route 0.0.0.0/0 of {table}: internet gateway {detached} is not attached to {vpc}",
    ),
    Refusal(
        "a route to another VPC's gateway",
        ROUTE,
        lambda w: {"routeTableId": w.id("other-table"), "destinationCidrBlock": "0.0.0.0/0", "gatewayId": w.id("gateway")},
        "route 0.0.0.0/0 of {other-table}: internet gateway {gateway} is not attached to {other-vpc}",
    ),
    Refusal(
        "a route to an unknown NAT gateway",
        ROUTE,
        lambda w: {"routeTableId": w.id("table"), "destinationCidrBlock": "0.0.0.0/0", "natGatewayId": "nat-0"},
        "route 0.0.0.0/0 of {table}: natgateway nat-0 does not exist in us-west-2",
    ),
    Refusal(
        "a route to another VPC's NAT gateway",
        ROUTE,
        lambda w: {"routeTableId": w.id("other-table"), "destinationCidrBlock": "0.0.0.0/0", "natGatewayId": w.id("nat")},
        "route 0.0.0.0/0 of {other-table}: NAT gateway {nat} is in {vpc}, not in {other-vpc}",
    ),
    Refusal(
        "a route with two targets",
        ROUTE,
        lambda w: {
            "routeTableId": w.id("table"),
            "destinationCidrBlock": "0.0.0.0/0",
            "natGatewayId": w.id("nat"),
            "gatewayId": w.id("gateway"),
        },
        "aws:ec2/route:Route: gatewayId: exactly one target of gatewayId, natGatewayId is required",
    ),
    Refusal(
        "a subnet associated twice",
        ASSOCIATION,
        lambda w: {"subnetId": w.id("subnet-a"), "routeTableId": w.id("table")},
        "subnet {subnet-a} is already associated with route table {table}",
    ),
    Refusal(
        "another VPC's route table",
        ASSOCIATION,
        lambda w: {"subnetId": w.id("subnet-b"), "routeTableId": w.id("other-table")},
        "route table {other-table} is in {other-vpc}, subnet {subnet-b} in {vpc}",
    ),
    Refusal(
        "an address that a NAT gateway has already",
        NAT,
        lambda w: {"subnetId": w.id("subnet-b"), "allocationId": w.id("address")},
        "NAT gateway: elastic IP {address} is already used by {nat}",
    ),
    Refusal(
        "a NAT gateway where there is no internet gateway",
        NAT,
        lambda w: {"subnetId": w.id("other-subnet"), "allocationId": w.id("spare")},
        "NAT gateway: VPC {other-vpc} has no internet gateway attached",
    ),
]

_INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
GROUPS = [
    Refusal(
        "a group in an unknown VPC",
        GROUP,
        lambda w: {"vpcId": "vpc-0"},
        "security group bad-0000000: vpc vpc-0 does not exist in us-west-2",
    ),
    Refusal(
        "a description with a character that EC2 does not take",
        GROUP,
        lambda w: {"vpcId": w.id("vpc"), "description": "caf\u00e9"},
        "aws:ec2/securityGroup:SecurityGroup: description: 'caf\u00e9': "
        "at most 255 of letters, digits, spaces and ._-:/()#,@[]+=&;{}!$*",
    ),
    Refusal(
        "a protocol that does not exist",
        INGRESS,
        lambda w: {
            "securityGroupId": w.id("group"),
            "ipProtocol": "tpc",
            "fromPort": 1,
            "toPort": 1,
            "cidrIpv4": "10.0.0.0/8",
        },
        f"{_INGRESS}: ipProtocol: 'tpc' is not one of -1, icmp, icmpv6, tcp, udp, 6, 17",
    ),
    Refusal(
        "a port above 65535",
        INGRESS,
        lambda w: {
            "securityGroupId": w.id("group"),
            "ipProtocol": "tcp",
            "fromPort": 1,
            "toPort": 70000,
            "cidrIpv4": "10.0.0.0/8",
        },
        f"{_INGRESS}: fromPort: ports 1-70000 are not within 0-65535",
    ),
    Refusal(
        "a port range upside down",
        INGRESS,
        lambda w: {
            "securityGroupId": w.id("group"),
            "ipProtocol": "tcp",
            "fromPort": 9,
            "toPort": 8,
            "cidrIpv4": "10.0.0.0/8",
        },
        f"{_INGRESS}: fromPort: 9 is above toPort 8",
    ),
    Refusal(
        "ports on a rule for all protocols",
        INGRESS,
        lambda w: {
            "securityGroupId": w.id("group"),
            "ipProtocol": "-1",
            "fromPort": 0,
            "toPort": 0,
            "cidrIpv4": "10.0.0.0/8",
        },
        f"{_INGRESS}: fromPort: a rule for all protocols (-1) has no ports",
    ),
    Refusal(
        "a rule without ports",
        INGRESS,
        lambda w: {"securityGroupId": w.id("group"), "ipProtocol": "tcp", "cidrIpv4": "10.0.0.0/8"},
        f"{_INGRESS}: fromPort: fromPort and toPort are both required for tcp",
    ),
    Refusal(
        "a rule with two sources",
        INGRESS,
        lambda w: {
            "securityGroupId": w.id("group"),
            "ipProtocol": "-1",
            "cidrIpv4": "10.0.0.0/8",
            "referencedSecurityGroupId": w.id("group"),
        },
        f"{_INGRESS}: cidrIpv4: exactly one of cidrIpv4 and referencedSecurityGroupId is required",
    ),
    Refusal(
        "a rule from an unknown group",
        INGRESS,
        lambda w: {"securityGroupId": w.id("group"), "ipProtocol": "-1", "referencedSecurityGroupId": "sg-0"},
        "ingress rule of {group}: security-group sg-0 does not exist in us-west-2",
    ),
]

ENDPOINTS = [
    Refusal(
        "a service of another region",
        ENDPOINT,
        lambda w: {"vpcId": w.id("vpc"), "serviceName": "com.amazonaws.eu-west-1.s3"},
        "VPC endpoint for com.amazonaws.eu-west-1.s3: no such endpoint service in us-west-2",
    ),
    Refusal(
        "a service that AWS retired",
        ENDPOINT,
        lambda w: {"vpcId": w.id("vpc"), "serviceName": "com.amazonaws.us-west-2.ec2messages"},
        "aws:ec2/vpcEndpoint:VpcEndpoint: serviceName: AWS retired ec2messages on 30 September 2026; remove this endpoint",
    ),
    Refusal(
        "another VPC's security group",
        ENDPOINT,
        lambda w: {
            "vpcId": w.id("vpc"),
            "serviceName": "com.amazonaws.us-west-2.eks",
            "vpcEndpointType": "Interface",
            "subnetIds": [w.id("subnet-a")],
            "securityGroupIds": [w.id("other-group")],
        },
        "VPC endpoint for com.amazonaws.us-west-2.eks: security-group {other-group} is in {other-vpc}, not in {vpc}",
    ),
    Refusal(
        "a second private name for one service",
        ENDPOINT,
        lambda w: {
            "vpcId": w.id("vpc"),
            "serviceName": "com.amazonaws.us-west-2.sts",
            "vpcEndpointType": "Interface",
            "subnetIds": [w.id("subnet-b")],
            "privateDnsEnabled": True,
        },
        "VPC endpoint for com.amazonaws.us-west-2.sts: {sts} already has the private DNS name in this VPC",
    ),
    Refusal(
        "private DNS in a VPC without host names",
        ENDPOINT,
        lambda w: {
            "vpcId": w.id("other-vpc"),
            "serviceName": "com.amazonaws.us-west-2.sts",
            "vpcEndpointType": "Interface",
            "subnetIds": [w.id("other-subnet")],
            "privateDnsEnabled": True,
        },
        "VPC endpoint for com.amazonaws.us-west-2.sts: private DNS needs enableDnsHostnames on {other-vpc}",
    ),
    Refusal(
        "route tables on an interface endpoint",
        ENDPOINT,
        lambda w: {
            "vpcId": w.id("vpc"),
            "serviceName": "com.amazonaws.us-west-2.sts",
            "vpcEndpointType": "Interface",
            "subnetIds": [w.id("subnet-a")],
            "routeTableIds": [w.id("table")],
        },
        "aws:ec2/vpcEndpoint:VpcEndpoint: routeTableIds: only for Gateway endpoints",
    ),
]


def _flow_log(world: World, **changes: object) -> dict[str, object]:
    return {
        "vpcId": world.id("vpc"),
        "trafficType": "ALL",
        "logDestination": world.arn("flow-logs"),
        "iamRoleArn": world.arn("flow-role"),
        **changes,
    }


FLOW_LOGS = [
    Refusal(
        "a kind of traffic that does not exist",
        FLOW_LOG,
        lambda w: _flow_log(w, trafficType="SOME"),
        "CreateFlowLogs: TrafficType: 'SOME' is not one of ACCEPT, ALL, REJECT",
    ),
    Refusal(
        "a role for another service",
        FLOW_LOG,
        lambda w: _flow_log(w, iamRoleArn=w.arn("lambda-role")),
        "flow log of {vpc}: the trust policy of arn:aws:iam::123456789012:role/{lambda-role} "
        "does not allow vpc-flow-logs.amazonaws.com to assume it",
    ),
    Refusal(
        "an unknown log group",
        FLOW_LOG,
        lambda w: _flow_log(w, logDestination="arn:aws:logs:us-west-2:123456789012:log-group:/nowhere"),
        "flow log of {vpc}: log group /nowhere does not exist",
    ),
    Refusal(
        "an interval that does not exist",
        FLOW_LOG,
        lambda w: _flow_log(w, maxAggregationInterval=300),
        "aws:ec2/flowLog:FlowLog: maxAggregationInterval: 300 is not 60 or 600 seconds",
    ),
]

REFUSALS = [*SUBNETS, *ROUTES, *GROUPS, *ENDPOINTS, *FLOW_LOGS]


@pytest.mark.parametrize("refusal", REFUSALS, ids=ids(REFUSALS))
def test_it_is_refused_with_a_sentence(world: World, refusal: Refusal) -> None:
    check(world, refusal)
