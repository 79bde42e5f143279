"""A small working environment, created through the handlers, in which tests break one part."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from twin.aws import table
from twin.aws.base.clients import Clients

Values = dict[str, Any]

VPC = "aws:ec2/vpc:Vpc"
SUBNET = "aws:ec2/subnet:Subnet"
GATEWAY = "aws:ec2/internetGateway:InternetGateway"
ROUTE_TABLE = "aws:ec2/routeTable:RouteTable"
ROUTE = "aws:ec2/route:Route"
ASSOCIATION = "aws:ec2/routeTableAssociation:RouteTableAssociation"
ADDRESS = "aws:ec2/eip:Eip"
NAT = "aws:ec2/natGateway:NatGateway"
ENDPOINT = "aws:ec2/vpcEndpoint:VpcEndpoint"
GROUP = "aws:ec2/securityGroup:SecurityGroup"
INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
ROLE = "aws:iam/role:Role"
ROLE_POLICY = "aws:iam/rolePolicy:RolePolicy"
POLICY = "aws:iam/policy:Policy"
ATTACHMENT = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
OIDC = "aws:iam/openIdConnectProvider:OpenIdConnectProvider"
PROFILE = "aws:iam/instanceProfile:InstanceProfile"
KEY = "aws:kms/key:Key"
ALIAS = "aws:kms/alias:Alias"
LOG_GROUP = "aws:cloudwatch/logGroup:LogGroup"
BUCKET = "aws:s3/bucket:Bucket"
CLUSTER = "aws:eks/cluster:Cluster"
ADDON = "aws:eks/addon:Addon"
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
ACCESS_ENTRY = "aws:eks/accessEntry:AccessEntry"
ACCESS_POLICY = "aws:eks/accessPolicyAssociation:AccessPolicyAssociation"
POD_IDENTITY = "aws:eks/podIdentityAssociation:PodIdentityAssociation"

MANAGED = "arn:aws:iam::aws:policy/"


def trust(service: str) -> str:
    """Return the trust policy for one service."""
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def policy(**statement: Any) -> str:
    """Return a policy of one statement."""
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


@dataclass(frozen=True)
class Made:
    """A resource created through its handler."""

    token: str
    id: str
    inputs: Values
    outputs: Values


@dataclass
class World:
    """The account, and its created resources by name."""

    clients: Clients
    made: dict[str, Made] = field(default_factory=dict)

    def make(self, token: str, name: str, /, **inputs: Any) -> Made:
        """Check and create, as a provider does. Raises the handler's errors."""
        handler = table.handler(token)
        checked = handler.check(inputs, f"{name}-0000000")
        id, outputs = handler.create(self.clients, checked)
        self.made[name] = Made(token, id, checked, outputs)
        return self.made[name]

    def update(self, name: str, /, **changes: Any) -> Made:
        """Update in place with some inputs changed; None removes one."""
        old = self.made[name]
        merged = {key: value for key, value in {**old.inputs, **changes}.items() if value is not None}
        handler = table.handler(old.token)
        inputs = handler.check(merged)
        outputs = handler.update(self.clients, old.id, dict(old.outputs), inputs)
        self.made[name] = Made(old.token, old.id, inputs, outputs)
        return self.made[name]

    def read(self, name: str) -> Values | None:
        """Return the result of a refresh."""
        made = self.made[name]
        return table.handler(made.token).read(self.clients, made.id, dict(made.outputs))

    def delete(self, name: str) -> None:
        made = self.made[name]
        table.handler(made.token).delete(self.clients, made.id, dict(made.outputs))

    def id(self, name: str) -> str:
        return self.made[name].id

    def arn(self, name: str) -> str:
        return str(self.made[name].outputs["arn"])


def network(world: World) -> None:
    """Create a VPC with DNS, a subnet in each of two zones, a gateway, a route table and a security group."""
    vpc = world.make(VPC, "vpc", cidrBlock="10.0.0.0/16", enableDnsHostnames=True, enableDnsSupport=True).id
    for index, zone in enumerate("ab"):
        subnet = {"cidrBlock": f"10.0.{index}.0/24", "availabilityZone": f"us-west-2{zone}"}
        world.make(SUBNET, f"subnet-{zone}", vpcId=vpc, **subnet)
    world.make(GATEWAY, "gateway", vpcId=vpc)
    world.make(ROUTE_TABLE, "table", vpcId=vpc)
    world.make(GROUP, "group", vpcId=vpc, description="test")


def other_network(world: World) -> None:
    """Create a second VPC, for resources in the wrong VPC."""
    vpc = world.make(VPC, "other-vpc", cidrBlock="10.1.0.0/16").id
    world.make(SUBNET, "other-subnet", vpcId=vpc, cidrBlock="10.1.0.0/24", availabilityZone="us-west-2a")
    world.make(ROUTE_TABLE, "other-table", vpcId=vpc)
    world.make(GROUP, "other-group", vpcId=vpc, description="test")


def roles(world: World) -> None:
    """Create a cluster role and a node role with the policies that EKS needs, and roles without."""
    world.make(ROLE, "cluster-role", assumeRolePolicy=trust("eks.amazonaws.com"))
    world.make(ROLE, "node-role", assumeRolePolicy=trust("ec2.amazonaws.com"))
    world.make(ROLE, "bare-cluster-role", assumeRolePolicy=trust("eks.amazonaws.com"))
    world.make(ROLE, "bare-node-role", assumeRolePolicy=trust("ec2.amazonaws.com"))
    world.make(ATTACHMENT, "a", role=world.id("cluster-role"), policyArn=f"{MANAGED}AmazonEKSClusterPolicy")
    world.make(ATTACHMENT, "b", role=world.id("node-role"), policyArn=f"{MANAGED}AmazonEKSWorkerNodePolicy")
    world.make(ATTACHMENT, "c", role=world.id("node-role"), policyArn=f"{MANAGED}AmazonEC2ContainerRegistryPullOnly")


def cluster_inputs(world: World, **changes: Any) -> Values:
    """Return the inputs of a working cluster."""
    subnets = [world.id("subnet-a"), world.id("subnet-b")]
    return {
        "name": "c",
        "roleArn": world.arn("cluster-role"),
        "version": "1.34",
        "vpcConfig": {"subnetIds": subnets, "endpointPrivateAccess": True, "endpointPublicAccess": False},
        "accessConfig": {"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": True},
        "bootstrapSelfManagedAddons": False,
        "tags": {"owner": "me"},
        **changes,
    }


def template_inputs(**changes: Any) -> Values:
    """Return the inputs of a working launch template."""
    volume = {"volumeType": "gp3", "volumeSize": 50, "encrypted": "true", "deleteOnTermination": "true"}
    return {
        "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": volume}],
        "metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 1},
        "updateDefaultVersion": True,
        **changes,
    }


def node_group_inputs(world: World, **changes: Any) -> Values:
    """Return the inputs of a working system node group."""
    return {
        "clusterName": "c",
        "nodeRoleArn": world.arn("node-role"),
        "subnetIds": [world.id("subnet-a"), world.id("subnet-b")],
        "amiType": "AL2023_x86_64_STANDARD",
        "capacityType": "ON_DEMAND",
        "instanceTypes": ["m7i.large"],
        "launchTemplate": {"id": world.id("template"), "version": "1"},
        "scalingConfig": {"minSize": 1, "desiredSize": 2, "maxSize": 3},
        "labels": {"pool": "system"},
        "updateConfig": {"maxUnavailable": 1},
        **changes,
    }


def kubernetes(world: World) -> None:
    """Create a cluster with its network plugin and a system node group, in the network."""
    world.make(CLUSTER, "cluster", **cluster_inputs(world))
    world.make(ADDON, "vpc-cni", clusterName="c", addonName="vpc-cni", addonVersion="v1.20.4-eksbuild.2")
    world.make(TEMPLATE, "template", **template_inputs())
    world.make(NODE_GROUP, "nodes", **node_group_inputs(world))


def kubernetes_world(clients: Clients) -> World:
    """Return all of the above, a second cluster ``bare`` without add-ons and nodes, and wrong resources for both."""
    world = World(clients)
    network(world)
    other_network(world)
    roles(world)
    kubernetes(world)
    for name, cidr, zone in (("subnet-a2", "10.0.8.0/24", "us-west-2a"), ("subnet-d", "10.0.9.0/24", "us-west-2d")):
        world.make(SUBNET, name, vpcId=world.id("vpc"), cidrBlock=cidr, availabilityZone=zone)
    world.make(TEMPLATE, "typed-template", **template_inputs(instanceType="m7i.large"))
    world.make(CLUSTER, "bare", **cluster_inputs(world, name="bare"))
    return world
