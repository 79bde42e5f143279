"""A VPC with its egress and a cluster of another owner, and AWS's whole description of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from twin.aws import table
from twin.aws.base import records
from twin.aws.base.clients import Clients

CLUSTER = "shared"
ZONES = ("us-west-2a", "us-west-2b", "us-west-2c")
_DESCRIBED = {
    "describe_addresses": "Addresses",
    "describe_internet_gateways": "InternetGateways",
    "describe_nat_gateways": "NatGateways",
    "describe_network_acls": "NetworkAcls",
    "describe_route_tables": "RouteTables",
    "describe_security_groups": "SecurityGroups",
    "describe_security_group_rules": "SecurityGroupRules",
    "describe_subnets": "Subnets",
    "describe_vpc_endpoints": "VpcEndpoints",
    "describe_vpcs": "Vpcs",
}


@dataclass(frozen=True)
class Vpc:
    """The ids of the resources that `make_vpc` creates."""

    id: str
    private: dict[str, str]
    public: dict[str, str]

    @property
    def section(self) -> dict[str, Any]:
        """Return the section of a stack file that names them."""
        return {"vpcId": self.id, "privateSubnetIds": self.private, "publicSubnetIds": self.public}


def make_vpc(clients: Clients) -> Vpc:
    """Create a VPC with a private and a public subnet in each zone; all private subnets use one NAT gateway."""
    ec2 = clients("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.60.0.0/16")["Vpc"]["VpcId"]
    ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": True})
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    # The private subnets have no route table, so they use the VPC's main table.
    [main] = ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["RouteTables"]
    outer = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    ec2.create_route(RouteTableId=outer, DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
    private, public = {}, {}
    for number, zone in enumerate(ZONES):
        private[zone] = _subnet(ec2, vpc, zone, f"10.60.{16 * number}.0/20")
        public[zone] = _subnet(ec2, vpc, zone, f"10.60.{200 + number}.0/24")
        ec2.associate_route_table(RouteTableId=outer, SubnetId=public[zone])
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    nat = ec2.create_nat_gateway(SubnetId=public[ZONES[0]], AllocationId=address)["NatGateway"]["NatGatewayId"]
    ec2.create_route(RouteTableId=main["RouteTableId"], DestinationCidrBlock="0.0.0.0/0", NatGatewayId=nat)
    return Vpc(vpc, private, public)


def make_cluster(clients: Clients, vpc: Vpc, *, mode: str = "API", oidc: bool = True) -> None:
    """Create the cluster `shared` in the private subnets, with the network plugin that nodes need."""
    iam = clients("iam")
    trust = {"Effect": "Allow", "Principal": {"Service": "eks.amazonaws.com"}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    role = iam.create_role(RoleName="owner-control-plane", AssumeRolePolicyDocument=document)["Role"]["Arn"]
    iam.attach_role_policy(RoleName="owner-control-plane", PolicyArn="arn:aws:iam::aws:policy/AmazonEKSClusterPolicy")
    inputs = {
        "name": CLUSTER,
        "version": "1.35",
        "roleArn": role,
        "accessConfig": {"authenticationMode": mode},
        "vpcConfig": {"subnetIds": list(vpc.private.values()), "endpointPublicAccess": True},
    }
    handler = table.handler("aws:eks/cluster:Cluster")
    _, outputs = handler.create(clients, handler.check(inputs, CLUSTER))
    if oidc:
        issuer = outputs["identities"][0]["oidcs"][0]["issuer"]
        iam.create_open_id_connect_provider(Url=issuer, ClientIDList=["sts.amazonaws.com"], ThumbprintList=[])
    add_on = {"clusterName": CLUSTER, "addonName": "vpc-cni", "addonVersion": "v1.22.4-eksbuild.3"}
    handler = table.handler("aws:eks/addon:Addon")
    handler.create(clients, handler.check(add_on, "vpc-cni"))


def described(clients: Clients) -> str:
    """Return AWS's description of networks, clusters, identities and keys, as one text to compare two points in time."""
    ec2, eks, iam = clients("ec2"), clients("eks"), clients("iam")
    found: dict[str, Any] = {key: getattr(ec2, operation)()[key] for operation, key in _DESCRIBED.items()}
    found["NatGateways"] = [item for item in found["NatGateways"] if item["State"] != "deleted"]
    found["VpcEndpoints"] = [item for item in found["VpcEndpoints"] if item["State"] != "deleted"]
    found["Attributes"] = [
        ec2.describe_vpc_attribute(VpcId=vpc["VpcId"], Attribute=attribute)[f"{attribute[0].upper()}{attribute[1:]}"]
        for vpc in found["Vpcs"]
        for attribute in ("enableDnsSupport", "enableDnsHostnames")
    ]
    for name in eks.list_clusters()["clusters"]:
        found[f"cluster {name}"] = eks.describe_cluster(name=name)["cluster"]
        found[f"nodes of {name}"] = eks.list_nodegroups(clusterName=name)["nodegroups"]
        found[f"records of {name}"] = records.below(clients, records.path("eks", name))
    found["roles"] = {
        role["RoleName"]: [role, iam.list_attached_role_policies(RoleName=role["RoleName"])["AttachedPolicies"]]
        for role in iam.list_roles()["Roles"]
    }
    found["providers"] = [
        {**iam.get_open_id_connect_provider(OpenIDConnectProviderArn=one["Arn"]), "ResponseMetadata": None}
        for one in iam.list_open_id_connect_providers()["OpenIDConnectProviderList"]
    ]
    return json.dumps(found, indent=1, sort_keys=True, default=str)


def _subnet(ec2: Any, vpc: str, zone: str, block: str) -> str:
    return str(ec2.create_subnet(VpcId=vpc, AvailabilityZone=zone, CidrBlock=block)["Subnet"]["SubnetId"])
