"""Mistakes in EKS resources that EKS refuses, or that would only show as a node group that never becomes active."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from tests.component.refusals import Refusal, check, ids
from tests.component.world import (
    ACCESS_ENTRY,
    ACCESS_POLICY,
    ADDON,
    ASG_TAG,
    CLUSTER,
    NODE_GROUP,
    POD_IDENTITY,
    SUBNET,
    TEMPLATE,
    World,
    cluster_inputs,
    kubernetes,
    network,
    node_group_inputs,
    other_network,
    roles,
    template_inputs,
)
from twin.aws.clients import Clients

_ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


@pytest.fixture(scope="module")
def world(clients: Clients) -> Iterator[World]:
    world = World(clients)
    network(world)
    other_network(world)
    roles(world)
    kubernetes(world)
    world.make(SUBNET, "subnet-a2", vpcId=world.id("vpc"), cidrBlock="10.0.8.0/24", availabilityZone="us-west-2a")
    world.make(SUBNET, "subnet-d", vpcId=world.id("vpc"), cidrBlock="10.0.9.0/24", availabilityZone="us-west-2d")
    world.make(TEMPLATE, "typed-template", **template_inputs(instanceType="m7i.large"))
    world.make(CLUSTER, "bare", **cluster_inputs(world, name="bare"))
    yield world


def _cluster(world: World, vpc: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    inputs = cluster_inputs(world, **{"name": "new", **changes})
    return {**inputs, "vpcConfig": {**inputs["vpcConfig"], **(vpc or {})}}


_CLUSTER = "aws:eks/cluster:Cluster"
CLUSTERS = [
    Refusal(
        "a Kubernetes version that EKS does not have",
        CLUSTER,
        lambda w: _cluster(w, version="1.99"),
        f"{_CLUSTER}: version: EKS has no Kubernetes 1.99; it has 1.31, 1.32, 1.33, 1.34, 1.35",
    ),
    Refusal(
        "no endpoint at all",
        CLUSTER,
        lambda w: _cluster(w, {"endpointPrivateAccess": False}),
        f"{_CLUSTER}: vpcConfig: both API endpoints are off: nobody could reach the cluster",
    ),
    Refusal(
        "an allow-list without a public endpoint",
        CLUSTER,
        lambda w: _cluster(w, {"publicAccessCidrs": ["203.0.113.0/24"]}),
        f"{_CLUSTER}: vpcConfig.publicAccessCidrs: only with the public endpoint",
    ),
    Refusal(
        "an allow-list of private addresses",
        CLUSTER,
        lambda w: _cluster(w, {"endpointPublicAccess": True, "publicAccessCidrs": ["10.1.0.0/16"]}),
        f"{_CLUSTER}: vpcConfig.publicAccessCidrs[0]: 10.1.0.0/16 is within 10.0.0.0/8, "
        "from which nobody reaches a public endpoint",
    ),
    Refusal(
        "an allow-list that is not a CIDR",
        CLUSTER,
        lambda w: _cluster(w, {"endpointPublicAccess": True, "publicAccessCidrs": ["office"]}),
        f"{_CLUSTER}: vpcConfig.publicAccessCidrs[0]: 'office' is not an IPv4 CIDR block: "
        "Expected 4 octets in 'office'",
    ),
    Refusal(
        "a role that does not exist",
        CLUSTER,
        lambda w: _cluster(w, roleArn="arn:aws:iam::123456789012:role/nobody"),
        "EKS cluster new: IAM role arn:aws:iam::123456789012:role/nobody does not exist",
    ),
    Refusal(
        "a role for another service",
        CLUSTER,
        lambda w: _cluster(w, roleArn=w.arn("node-role")),
        "EKS cluster new: the trust policy of arn:aws:iam::123456789012:role/{node-role} "
        "does not allow eks.amazonaws.com to assume it",
    ),
    Refusal(
        "a role that has no permission yet",
        CLUSTER,
        lambda w: _cluster(w, roleArn=w.arn("bare-cluster-role")),
        "EKS cluster new: role {bare-cluster-role} does not have AmazonEKSClusterPolicy (yet); "
        "make it depend on the attachments",
    ),
    Refusal(
        "subnets in one zone",
        CLUSTER,
        lambda w: _cluster(w, {"subnetIds": [w.id("subnet-a"), w.id("subnet-a2")]}),
        "EKS cluster new: subnets in at least two availability zones are required, these are in ['us-west-2a']",
    ),
    Refusal(
        "subnets of two VPCs",
        CLUSTER,
        lambda w: _cluster(w, {"subnetIds": [w.id("subnet-b"), w.id("other-subnet")]}),
        "EKS cluster new: subnet {subnet-b} is in {vpc}, subnet {other-subnet} in {other-vpc}",
    ),
    Refusal(
        "an unknown subnet",
        CLUSTER,
        lambda w: _cluster(w, {"subnetIds": [w.id("subnet-a"), "subnet-0"]}),
        "EKS cluster new: subnet subnet-0 does not exist in us-west-2",
    ),
    Refusal(
        "an unknown key",
        CLUSTER,
        lambda w: _cluster(
            w,
            encryptionConfig={
                "provider": {"keyArn": "arn:aws:kms:us-west-2:123456789012:key/00000000-0000-0000-0000-000000000000"},
                "resources": ["secrets"],
            },
        ),
        "EKS cluster new: KMS key arn:aws:kms:us-west-2:123456789012:key/00000000-0000-0000-0000-000000000000 "
        "does not exist or is pending deletion",
    ),
    Refusal(
        "a log type that does not exist",
        CLUSTER,
        lambda w: _cluster(w, enabledClusterLogTypes=["api", "kubelet"]),
        "CreateCluster: logging.clusterLogging[0].types[1]: 'kubelet' is not one of "
        "api, audit, authenticator, controllerManager, scheduler",
    ),
    Refusal(
        "a name that exists",
        CLUSTER,
        lambda w: _cluster(w, name="c"),
        "EKS cluster c already exists",
    ),
]


def _nodes(world: World, **changes: Any) -> dict[str, Any]:
    return node_group_inputs(world, **changes)


_GROUP = "node group bad-0000000 of c"
NODE_GROUPS = [
    Refusal(
        "the NVIDIA image on a CPU type",
        NODE_GROUP,
        lambda w: _nodes(w, amiType="AL2023_x86_64_NVIDIA"),
        f"{_GROUP}: AMI type AL2023_x86_64_NVIDIA on m7i.large, which has no NVIDIA GPU",
    ),
    Refusal(
        "the standard image on a GPU type",
        NODE_GROUP,
        lambda w: _nodes(w, instanceTypes=["g5.xlarge"]),
        f"{_GROUP}: g5.xlarge has an NVIDIA GPU, AMI type AL2023_x86_64_STANDARD has no driver for it",
    ),
    Refusal(
        "an image for another processor",
        NODE_GROUP,
        lambda w: _nodes(w, instanceTypes=["m7g.large"]),
        f"{_GROUP}: AMI type AL2023_x86_64_STANDARD on m7g.large, which is arm64",
    ),
    Refusal(
        "an image type that does not exist",
        NODE_GROUP,
        lambda w: _nodes(w, amiType="AL2023_x86_64_GPU"),
        "CreateNodegroup: amiType: 'AL2023_x86_64_GPU' is not one of the known values, such as "
        "AL2023_x86_64_NEURON, AL2023_x86_64_NVIDIA, AL2_x86_64_GPU",
    ),
    Refusal(
        "more wanted than allowed",
        NODE_GROUP,
        lambda w: _nodes(w, scalingConfig={"minSize": 1, "desiredSize": 4, "maxSize": 3}),
        "aws:eks/nodeGroup:NodeGroup: scalingConfig: minSize 1 <= desiredSize 4 <= maxSize 3 does not hold",
    ),
    Refusal(
        "less wanted than at least",
        NODE_GROUP,
        lambda w: _nodes(w, scalingConfig={"minSize": 2, "desiredSize": 1, "maxSize": 3}),
        "aws:eks/nodeGroup:NodeGroup: scalingConfig: minSize 2 <= desiredSize 1 <= maxSize 3 does not hold",
    ),
    Refusal(
        "two ways to count what may be unavailable",
        NODE_GROUP,
        lambda w: _nodes(w, updateConfig={"maxUnavailable": 1, "maxUnavailablePercentage": 50}),
        "aws:eks/nodeGroup:NodeGroup: updateConfig: exactly one of maxUnavailable and maxUnavailablePercentage is required",
    ),
    Refusal(
        "a taint effect as Kubernetes spells it",
        NODE_GROUP,
        lambda w: _nodes(w, taints=[{"key": "gpu", "value": "x", "effect": "NoSchedule"}]),
        "CreateNodegroup: taints[0].effect: 'NoSchedule' is not one of NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE",
    ),
    Refusal(
        "an unknown cluster",
        NODE_GROUP,
        lambda w: _nodes(w, clusterName="none"),
        "node group bad-0000000 of none: EKS cluster none does not exist",
    ),
    Refusal(
        "a subnet of another VPC",
        NODE_GROUP,
        lambda w: _nodes(w, subnetIds=[w.id("other-subnet")]),
        f"{_GROUP}: subnet {{other-subnet}} is in {{other-vpc}}, the cluster in {{vpc}}",
    ),
    Refusal(
        "a zone without the instance type",
        NODE_GROUP,
        lambda w: _nodes(w, instanceTypes=["g5.xlarge"], amiType="AL2023_x86_64_NVIDIA", subnetIds=[w.id("subnet-d")]),
        f"{_GROUP}: g5.xlarge is not offered in us-west-2d",
    ),
    Refusal(
        "a role without permissions yet",
        NODE_GROUP,
        lambda w: _nodes(w, nodeRoleArn=w.arn("bare-node-role")),
        f"{_GROUP}: role {{bare-node-role}} does not have AmazonEKSWorkerNodePolicy (yet); make it depend on the attachments",
    ),
    Refusal(
        "a role for another service",
        NODE_GROUP,
        lambda w: _nodes(w, nodeRoleArn=w.arn("cluster-role")),
        f"{_GROUP}: the trust policy of arn:aws:iam::123456789012:role/{{cluster-role}} "
        "does not allow ec2.amazonaws.com to assume it",
    ),
    Refusal(
        "a template version that does not exist",
        NODE_GROUP,
        lambda w: _nodes(w, launchTemplate={"id": w.id("template"), "version": "7"}),
        f"{_GROUP}: launch template {{template}} has no version 7",
    ),
    Refusal(
        "instance types in two places",
        NODE_GROUP,
        lambda w: _nodes(w, launchTemplate={"id": w.id("typed-template"), "version": "1"}),
        f"{_GROUP}: instance types are in the node group and in its launch template; only one may have them",
    ),
    Refusal(
        "a capacity block without its market",
        NODE_GROUP,
        lambda w: _nodes(w, capacityType="CAPACITY_BLOCK"),
        f"{_GROUP}: capacity type CAPACITY_BLOCK, but the launch template's market is on-demand",
    ),
    Refusal(
        "an image of another Kubernetes version",
        NODE_GROUP,
        lambda w: _nodes(w, version="1.34", releaseVersion="1.33.1-20260101"),
        f"{_GROUP}: AMI release 1.33.1-20260101 is not of Kubernetes 1.34",
    ),
    Refusal(
        "nodes newer than their control plane",
        NODE_GROUP,
        lambda w: _nodes(w, version="1.35"),
        f"{_GROUP}: Kubernetes 1.35 nodes do not go with a 1.34 control plane",
    ),
    Refusal(
        "nodes before their network plugin",
        NODE_GROUP,
        lambda w: _nodes(w, clusterName="bare"),
        "node group bad-0000000 of bare: the cluster has no vpc-cni add-on (yet), so no node would become Ready "
        "(NodeCreationFailure); make the node group depend on it",
    ),
    Refusal(
        "a tag on an unknown Auto Scaling group",
        ASG_TAG,
        lambda w: {"autoscalingGroupName": "none", "tag": {"key": "k", "value": "v", "propagateAtLaunch": False}},
        "tag k: Auto Scaling group none does not exist",
    ),
]

_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"


def _volume(**changes: Any) -> dict[str, Any]:
    return {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeType": "gp3", "volumeSize": 50, **changes}}]}


TEMPLATES = [
    Refusal(
        "user data that is not base64",
        TEMPLATE,
        lambda w: template_inputs(userData="#!/bin/bash"),
        f"{_TEMPLATE}: userData: not base64",
    ),
    Refusal(
        "user data that is too long",
        TEMPLATE,
        lambda w: template_inputs(userData=base64.b64encode(b"x" * 16385).decode()),
        f"{_TEMPLATE}: userData: 16385 bytes; at most 16384",
    ),
    Refusal(
        "an instance type that does not exist",
        TEMPLATE,
        lambda w: template_inputs(instanceType="g5.huge"),
        "CreateLaunchTemplate: LaunchTemplateData.InstanceType: 'g5.huge' is not one of the known values, such as g5.xlarge",
    ),
    Refusal(
        "metadata tokens that are neither",
        TEMPLATE,
        lambda w: template_inputs(metadataOptions={"httpTokens": "must"}),
        "CreateLaunchTemplate: LaunchTemplateData.MetadataOptions.HttpTokens: 'must' is not one of optional, required",
    ),
    Refusal(
        "throughput that the volume's IOPS do not carry",
        TEMPLATE,
        lambda w: template_inputs(**_volume(throughput=1000)),
        f"{_TEMPLATE}: blockDeviceMappings[0].ebs.throughput: 1000 MiB/s needs 4000 IOPS, the volume has 3000",
    ),
    Refusal(
        "a flag as a word of its own",
        TEMPLATE,
        lambda w: template_inputs(**_volume(encrypted="yes")),
        f'{_TEMPLATE}: blockDeviceMappings[0].ebs.encrypted: \'yes\' is not "true" or "false"',
    ),
    Refusal(
        "an unknown placement group",
        TEMPLATE,
        lambda w: template_inputs(placement={"groupName": "none"}),
        "launch template bad-0000000: placement group none does not exist",
    ),
    Refusal(
        "an unknown security group",
        TEMPLATE,
        lambda w: template_inputs(vpcSecurityGroupIds=["sg-0"]),
        "launch template bad-0000000: security-group sg-0 does not exist in us-west-2",
    ),
    Refusal(
        "a misspelt member",
        TEMPLATE,
        lambda w: template_inputs(metadataOptions={"httpToken": "required"}),
        f"{_TEMPLATE}: metadataOptions.httpToken: unknown property; known: "
        "httpEndpoint, httpProtocolIpv6, httpPutResponseHopLimit, httpTokens, instanceMetadataTags",
    ),
]


def _addon(name: str = "eks-pod-identity-agent", **changes: Any) -> dict[str, Any]:
    return {"clusterName": "c", "addonName": name, "addonVersion": "v1.3.9-eksbuild.5", **changes}


_ADDON = "aws:eks/addon:Addon"
ADDONS = [
    Refusal(
        "an add-on that EKS does not have",
        ADDON,
        lambda w: _addon("nvidia-device-plugin"),
        f"{_ADDON}: addonName: EKS has no add-on 'nvidia-device-plugin'; known to the twin: amazon-cloudwatch-observability, "
        "aws-ebs-csi-driver, aws-efs-csi-driver, aws-mountpoint-s3-csi-driver, coredns, eks-node-monitoring-agent, "
        "eks-pod-identity-agent, kube-proxy, metrics-server, snapshot-controller, vpc-cni",
    ),
    Refusal(
        "a version without its build",
        ADDON,
        lambda w: _addon(addonVersion="v1.3.9"),
        f"{_ADDON}: addonVersion: 'v1.3.9' is not like v1.2.3-eksbuild.4",
    ),
    Refusal(
        "no version",
        ADDON,
        lambda w: {"clusterName": "c", "addonName": "coredns"},
        f"{_ADDON}: addonVersion: required: without it each preview takes the newest one of that day",
    ),
    Refusal(
        "a second one",
        ADDON,
        lambda w: _addon("vpc-cni"),
        "add-on vpc-cni of c already exists",
    ),
    Refusal(
        "kube-proxy newer than the control plane",
        ADDON,
        lambda w: _addon("kube-proxy", addonVersion="v1.35.0-eksbuild.1"),
        "add-on kube-proxy of c: kube-proxy v1.35.0-eksbuild.1 does not go with Kubernetes 1.34 (1.31 to 1.34 do)",
    ),
    Refusal(
        "DNS before there is a node to run on",
        ADDON,
        lambda w: _addon("coredns", clusterName="bare", addonVersion="v1.12.4-eksbuild.1"),
        "add-on coredns of bare: no node group without taints has a node that it could run on; it would stay DEGRADED until "
        "the create times out. Make it depend on the node group",
    ),
    Refusal(
        "configuration that is not JSON",
        ADDON,
        lambda w: _addon(configurationValues="replicas: 2"),
        f"{_ADDON}: configurationValues: not a JSON object",
    ),
    Refusal(
        "a role that pods cannot take",
        ADDON,
        lambda w: _addon(podIdentityAssociations=[{"serviceAccount": "s", "roleArn": w.arn("node-role")}]),
        "add-on eks-pod-identity-agent of c: the trust policy of arn:aws:iam::123456789012:role/{node-role} "
        "does not allow pods.eks.amazonaws.com to assume it",
    ),
    Refusal(
        "an add-on of an unknown cluster",
        ADDON,
        lambda w: _addon(clusterName="none"),
        "add-on eks-pod-identity-agent of none: EKS cluster none does not exist",
    ),
]

ACCESS = [
    Refusal(
        "a principal that does not exist",
        ACCESS_ENTRY,
        lambda w: {"clusterName": "c", "principalArn": "arn:aws:iam::123456789012:role/nobody"},
        "access entry of arn:aws:iam::123456789012:role/nobody to c: "
        "IAM role arn:aws:iam::123456789012:role/nobody does not exist",
    ),
    Refusal(
        "a session instead of a role",
        ACCESS_ENTRY,
        lambda w: {"clusterName": "c", "principalArn": "arn:aws:sts::123456789012:assumed-role/admin/me"},
        "aws:eks/accessEntry:AccessEntry: principalArn: 'arn:aws:sts::123456789012:assumed-role/admin/me' "
        "is not the ARN of an IAM role or user",
    ),
    Refusal(
        "a group of the system's",
        ACCESS_ENTRY,
        lambda w: {"clusterName": "c", "principalArn": w.arn("node-role"), "kubernetesGroups": ["system:masters"]},
        "aws:eks/accessEntry:AccessEntry: kubernetesGroups: 'system:masters': "
        "groups that begin with system: are not allowed",
    ),
    Refusal(
        "a policy for a principal without an entry",
        ACCESS_POLICY,
        lambda w: {
            "clusterName": "c",
            "principalArn": w.arn("node-role"),
            "policyArn": _ADMIN,
            "accessScope": {"type": "cluster"},
        },
        "access policy of arn:aws:iam::123456789012:role/{node-role} in c: the principal has no access entry",
    ),
    Refusal(
        "a namespace scope without namespaces",
        ACCESS_POLICY,
        lambda w: {
            "clusterName": "c",
            "principalArn": w.arn("node-role"),
            "policyArn": _ADMIN,
            "accessScope": {"type": "namespace"},
        },
        "aws:eks/accessPolicyAssociation:AccessPolicyAssociation: accessScope.namespaces: required for the scope namespace",
    ),
    Refusal(
        "a pod identity whose role is for nodes",
        POD_IDENTITY,
        lambda w: {"clusterName": "c", "namespace": "n", "serviceAccount": "s", "roleArn": w.arn("node-role")},
        "pod identity of n/s in c: the trust policy of arn:aws:iam::123456789012:role/{node-role} "
        "does not allow pods.eks.amazonaws.com to assume it",
    ),
]

REFUSALS = [*CLUSTERS, *NODE_GROUPS, *TEMPLATES, *ADDONS, *ACCESS]


@pytest.mark.parametrize("refusal", REFUSALS, ids=ids(REFUSALS))
def test_it_is_refused_with_a_sentence(world: World, refusal: Refusal) -> None:
    check(world, refusal)
