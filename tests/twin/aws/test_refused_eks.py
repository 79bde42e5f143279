"""Mistakes in clusters, add-ons and access that EKS refuses, or that would only show as an add-on that stays DEGRADED."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.twin.aws.refusals import Refusal, check, ids
from tests.twin.aws.world import (
    ACCESS_ENTRY,
    ACCESS_POLICY,
    ADDON,
    CLUSTER,
    POD_IDENTITY,
    World,
    cluster_inputs,
    kubernetes_world,
)
from twin.aws.base.clients import Clients

_ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


@pytest.fixture(scope="module")
def world(clients: Clients) -> Iterator[World]:
    yield kubernetes_world(clients)


def _cluster(world: World, vpc: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    inputs = cluster_inputs(world, **{"name": "new", **changes})
    return {**inputs, "vpcConfig": {**inputs["vpcConfig"], **(vpc or {})}}


_CLUSTER = "aws:eks/cluster:Cluster"
CLUSTERS = [
    Refusal(
        "a Kubernetes version that EKS does not have",
        CLUSTER,
        lambda w: _cluster(w, version="1.99"),
        f"{_CLUSTER}: version: EKS has no Kubernetes 1.99; it has 1.31, 1.32, 1.33, 1.34, 1.35, 1.36, 1.37",
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
        f"{_CLUSTER}: vpcConfig.publicAccessCidrs[0]: 'office' is not an IPv4 CIDR block: Expected 4 octets in 'office'",
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


def _addon(name: str = "eks-pod-identity-agent", **changes: Any) -> dict[str, Any]:
    return {"clusterName": "c", "addonName": name, "addonVersion": "v1.3.9-eksbuild.5", **changes}


_ADDON = "aws:eks/addon:Addon"
ADDONS = [
    Refusal(
        "an add-on that EKS does not have",
        ADDON,
        lambda w: _addon("nvidia-device-plugin"),
        f"{_ADDON}: addonName: EKS has no add-on 'nvidia-device-plugin'; known to the twin: "
        "amazon-cloudwatch-observability, "
        "aws-ebs-csi-driver, aws-efs-csi-driver, aws-fsx-csi-driver, aws-mountpoint-s3-csi-driver, coredns, "
        "eks-node-monitoring-agent, eks-pod-identity-agent, kube-proxy, metrics-server, snapshot-controller, vpc-cni",
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
        "add-on vpc-cni of c: ResourceInUseException: Addon already exists.",
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

REFUSALS = [*CLUSTERS, *ADDONS, *ACCESS]


@pytest.mark.parametrize("refusal", REFUSALS, ids=ids(REFUSALS))
def test_it_is_refused_with_a_sentence(world: World, refusal: Refusal) -> None:
    check(world, refusal)
