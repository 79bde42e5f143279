"""Mistakes in node groups and their templates that EKS refuses, or that would only show as NodeCreationFailure."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from tests.twin.aws.refusals import Refusal, check, ids
from tests.twin.aws.world import ASG_TAG, NODE_GROUP, TEMPLATE, World, kubernetes_world, node_group_inputs, template_inputs
from twin.aws.base.clients import Clients


@pytest.fixture(scope="module")
def world(clients: Clients) -> Iterator[World]:
    yield kubernetes_world(clients)


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
        f"{_GROUP}: role {{bare-node-role}} does not have AmazonEKSWorkerNodePolicy (yet); "
        "make it depend on the attachments",
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

REFUSALS = [*NODE_GROUPS, *TEMPLATES]


@pytest.mark.parametrize("refusal", REFUSALS, ids=ids(REFUSALS))
def test_it_is_refused_with_a_sentence(world: World, refusal: Refusal) -> None:
    check(world, refusal)
