"""Refusals by AWS that moto lacks, one mistake each. The checks in twin/aws name their sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.twin.aws import world as made
from tests.twin.aws.world import World, policy
from twin.aws.base.clients import Clients
from twin.aws.base.handler import APPLY_ERRORS, explain

ANY = "0.0.0.0/0"
NOBODY = "arn:aws:iam::123456789012:role/nobody"
STS = "com.amazonaws.us-west-2.sts"
BUCKET_POLICY = "aws:s3/bucketPolicy:BucketPolicy"


@pytest.fixture(scope="module")
def world(clients: Clients) -> Iterator[World]:
    world = made.kubernetes_world(clients)
    world.make(made.GATEWAY, "detached")
    world.make(made.ADDRESS, "address", domain="vpc")
    world.make(made.ASSOCIATION, "association", subnetId=world.id("subnet-a"), routeTableId=world.id("table"))
    world.make(made.BUCKET, "bucket", bucket="models")
    world.make(made.KEY, "key")
    yield world


def _endpoint(world: World, **changes: Any) -> dict[str, Any]:
    return {"vpcId": world.id("vpc"), "serviceName": STS, "vpcEndpointType": "Interface", **changes}


def _in_subnets(world: World, *names: str) -> dict[str, Any]:
    return made.cluster_inputs(world, name="new", vpcConfig={"subnetIds": [world.id(name) for name in names]})


def _route(world: World, **target: str) -> dict[str, Any]:
    return {"routeTableId": world.id("table"), "destinationCidrBlock": ANY, **target}


Inputs = Callable[[World], dict[str, Any]]
REFUSALS: list[tuple[str, Inputs, str]] = [
    (
        made.ROUTE,
        lambda w: _route(w, gatewayId=w.id("detached")),
        "route 0.0.0.0/0 of {table}: internet gateway {detached} is not attached to {vpc}",
    ),
    (
        made.ROUTE,
        lambda w: _route(w, natGatewayId="nat-0"),
        "route 0.0.0.0/0 of {table}: natgateway nat-0 does not exist in us-west-2",
    ),
    (
        made.ASSOCIATION,
        lambda w: {"subnetId": w.id("subnet-a"), "routeTableId": w.id("table")},
        "subnet {subnet-a} is already associated with route table {table}",
    ),
    (
        made.NAT,
        lambda w: {"subnetId": w.id("other-subnet"), "allocationId": w.id("address")},
        "NAT gateway: VPC {other-vpc} has no internet gateway attached",
    ),
    (
        made.ENDPOINT,
        lambda w: _endpoint(w, serviceName="com.amazonaws.eu-west-1.s3"),
        "VPC endpoint for com.amazonaws.eu-west-1.s3: no such endpoint service in us-west-2",
    ),
    (
        made.ENDPOINT,
        lambda w: _endpoint(w, serviceName="com.amazonaws.us-west-2.ec2messages"),
        "VPC endpoint for com.amazonaws.us-west-2.ec2messages: no such endpoint service in us-west-2",
    ),
    (
        made.ENDPOINT,
        lambda w: _endpoint(w, vpcId=w.id("other-vpc"), privateDnsEnabled=True),
        f"VPC endpoint for {STS}: private DNS needs enableDnsHostnames on {{other-vpc}}",
    ),
    (
        made.GROUP,
        lambda w: {"name": "g", "vpcId": "vpc-0"},
        "security group g: vpc vpc-0 does not exist in us-west-2",
    ),
    (
        made.INGRESS,
        lambda w: {"securityGroupId": w.id("group"), "ipProtocol": "-1", "referencedSecurityGroupId": "sg-0"},
        "ingress rule of {group}: security-group sg-0 does not exist in us-west-2",
    ),
    (
        made.TEMPLATE,
        lambda w: made.template_inputs(name="t", vpcSecurityGroupIds=["sg-0"]),
        "launch template t: security-group sg-0 does not exist in us-west-2",
    ),
    (
        made.CLUSTER,
        lambda w: made.cluster_inputs(w, name="new", roleArn=NOBODY),
        f"EKS cluster new: IAM role {NOBODY} does not exist",
    ),
    (
        made.CLUSTER,
        lambda w: made.cluster_inputs(w, name="new", roleArn=w.arn("node-role")),
        "EKS cluster new: the trust policy of arn:aws:iam::123456789012:role/node-role-0000000 does not allow "
        "eks.amazonaws.com to assume it",
    ),
    (
        made.CLUSTER,
        lambda w: made.cluster_inputs(w, name="new", roleArn=w.arn("bare-cluster-role")),
        "EKS cluster new: role bare-cluster-role-0000000 does not have AmazonEKSClusterPolicy (yet); make it depend on "
        "the attachments",
    ),
    (
        made.CLUSTER,
        lambda w: _in_subnets(w, "subnet-a", "subnet-a2"),
        "EKS cluster new: subnets in at least two availability zones are required, these are in ['us-west-2a']",
    ),
    (
        made.CLUSTER,
        lambda w: _in_subnets(w, "subnet-b", "other-subnet"),
        "EKS cluster new: {other-subnet} is in {other-vpc}, not in {vpc}",
    ),
    (
        made.NODE_GROUP,
        lambda w: made.node_group_inputs(w, nodeGroupName="n", nodeRoleArn=w.arn("bare-node-role")),
        "node group n of c: role bare-node-role-0000000 does not have AmazonEKSWorkerNodePolicy (yet); make it depend on "
        "the attachments",
    ),
    (
        made.NODE_GROUP,
        lambda w: made.node_group_inputs(w, nodeGroupName="n", subnetIds=[w.id("other-subnet")]),
        "node group n of c: subnet {other-subnet} is in {other-vpc}, not in {vpc}",
    ),
    (
        made.NODE_GROUP,
        lambda w: made.node_group_inputs(w, nodeGroupName="n", instanceTypes=["m7g.large"]),
        "node group n of c: [m7g.large] is not a valid instance type for requested amiType AL2023_x86_64_STANDARD",
    ),
    (
        made.NODE_GROUP,
        lambda w: made.node_group_inputs(w, nodeGroupName="n", launchTemplate={"id": w.id("template"), "version": "7"}),
        "node group n of c: launch template {template} has no version 7",
    ),
    (
        made.NODE_GROUP,
        lambda w: made.node_group_inputs(
            w, nodeGroupName="n", launchTemplate={"id": w.id("typed-template"), "version": "1"}
        ),
        "node group n of c: Cannot specify instance types in launch template and API request",
    ),
    (
        made.NODE_GROUP,
        lambda w: made.node_group_inputs(w, nodeGroupName="n", clusterName="bare"),
        "node group n of bare: the cluster has no vpc-cni add-on (yet), so no node would become Ready "
        "(NodeCreationFailure); make the node group depend on it",
    ),
    (
        made.ROLE,
        lambda w: {"assumeRolePolicy": policy(Effect="Allow", Principal={"AWS": NOBODY}, Action="sts:AssumeRole")},
        f"Invalid principal in policy: {NOBODY} does not exist",
    ),
    (
        BUCKET_POLICY,
        lambda w: {
            "bucket": "models",
            "policy": policy(Effect="Deny", Principal="*", Action="s3:*", Resource="arn:aws:s3:::others/*"),
        },
        "bucket policy of models: Policy has invalid resource: arn:aws:s3:::others/*",
    ),
    (
        made.LOG_GROUP,
        lambda w: {"name": "/l", "kmsKeyId": w.arn("key")},
        "log group /l: the policy of arn:aws:kms:us-west-2:123456789012:key/{key} does not let logs.us-west-2.amazonaws.com "
        "use the key",
    ),
]


@pytest.mark.parametrize(("token", "inputs", "said"), REFUSALS)
def test_a_mistake_is_refused_in_a_sentence(world: World, token: str, inputs: Inputs, said: str) -> None:
    with pytest.raises(APPLY_ERRORS) as refused:
        world.make(token, "bad", **inputs(world))
    for name, resource in world.made.items():
        said = said.replace(f"{{{name}}}", resource.id)
    assert explain(refused.value) == said


def test_a_policy_is_no_longer_than_iam_takes() -> None:
    text = policy(Effect="Allow", Action=["s3:GetObject"] * 500, Resource="*")
    (problem,) = made.table.handler(made.POLICY).rules({"policy": text})
    assert str(problem) == f"policy: {len(''.join(text.split()))} characters without white space; at most 6144"
