"""Describe consequences of replacements and deletions, and updates that AWS refuses, for the approver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from stackctl.review.plan import ABSENT, Step

_REPLACED: Mapping[str, str] = {
    "aws:ec2/vpc:Vpc": "deletes the whole network with the cluster and everything on it: plan a new stack instead",
    "aws:eks/cluster:Cluster": "deletes the whole cluster: Triton, gateway, monitoring. No request is answered meanwhile",
    "aws:ec2/subnet:Subnet": "removes its nodes, endpoints and load balancers; a cluster accepts only subnets of its VPC",
    "aws:ec2/natGateway:NatGateway": "its zones have no internet access until the new one exists; the address changes",
    "aws:ec2/eip:Eip": "the public address changes; allow lists with the old address break",
    "aws:ec2/internetGateway:InternetGateway": "no internet access until the new one is attached",
    "aws:ec2/vpcEndpoint:VpcEndpoint": "calls to that service from private subnets fail until the new one is available",
    "aws:ec2/routeTable:RouteTable": "its subnets have no routes until the new one is associated",
    "aws:ec2/securityGroup:SecurityGroup": "its connections are cut; AWS refuses while a resource uses it",
    "aws:ec2/launchTemplate:LaunchTemplate": "replaces every node of its group, one after the other",
    "aws:eks/nodeGroup:NodeGroup": "removes all nodes of the group and their pods; new GPU nodes may lack capacity",
    "aws:eks/addon:Addon": "the add-on's function (DNS, network, volumes) stops until the new one runs",
    "aws:eks/accessEntry:AccessEntry": "that role has no access to the cluster meanwhile",
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": "that role has no permissions in the cluster meanwhile",
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": "new pods of that service account get no credentials meanwhile",
    "aws:kms/key:Key": "data encrypted with the old key is unreadable after its deletion in 30 days",
    "aws:s3/bucket:Bucket": "empties the bucket, or fails to delete it; its readers (Triton: models) fail",
    "aws:fsx/lustreFileSystem:LustreFileSystem": "pods lose their models; the new file system loads the bucket again",
    "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation": "new objects of the bucket are invisible meanwhile",
    "aws:sqs/queue:Queue": "loses the messages in the queue; its URL changes for senders",
    "aws:iam/role:Role": "its ARN may change: its users are refused until they restart with the new one",
    "aws:iam/openIdConnectProvider:OpenIdConnectProvider": "no service account can assume a role (IRSA) meanwhile",
    "aws:cloudwatch/logGroup:LogGroup": "loses its logs",
    "pulumi:providers:aws": "may replace every AWS resource of the provider",
    "pulumi:providers:kubernetes": "replaces every Kubernetes object: look for the cluster in this list",
    "kubernetes:apps/v1:Deployment": "terminates all its pods before new ones exist, unless the new one has another name",
    "kubernetes:apps/v1:StatefulSet": "terminates all its pods before new ones exist; volumes stay",
    "kubernetes:apps/v1:DaemonSet": "runs on no node until the new one exists",
    "kubernetes:core/v1:Service": "its address changes; a load balancer behind it is created again with another name",
    "kubernetes:core/v1:Namespace": "deletes everything in the namespace, volumes included",
    "kubernetes:core/v1:PersistentVolumeClaim": "loses the volume's data",
    "kubernetes:core/v1:PersistentVolume": "waits until its pods terminate; new pods wait for the new volume",
    "kubernetes:helm.sh/v3:Release": "uninstalls and installs the chart; its custom resources may be deleted",
    "kubernetes:gateway.networking.k8s.io/v1:Gateway": "creates the load balancer again: clients need its new name",
    "kubernetes:gateway.networking.k8s.io/v1:HTTPRoute": "HTTP requests for its model get 404 until the new one exists",
    "kubernetes:gateway.networking.k8s.io/v1:GRPCRoute": "gRPC requests for its model fail meanwhile",
    "kubernetes:keda.sh/v1alpha1:ScaledObject": "stops scaling meanwhile; the number of pods stays",
    "kubernetes:karpenter.sh/v1:NodePool": "drains and removes its nodes",
}

_DELETED: Mapping[str, str] = {
    "aws:ec2/vpc:Vpc": "deletes the whole network with everything in it",
    "aws:ec2/subnet:Subnet": "removes its nodes, endpoints and load balancers",
    "aws:ec2/internetGateway:InternetGateway": "the VPC loses internet access",
    "aws:ec2/routeTable:RouteTable": "its subnets have only the routes of the VPC's main table",
    "aws:ec2/securityGroup:SecurityGroup": "its connections are cut; AWS refuses while a resource uses it",
    "aws:eks/cluster:Cluster": "deletes the whole cluster with everything on it",
    "aws:eks/nodeGroup:NodeGroup": "removes all nodes of the group and their pods",
    "aws:eks/addon:Addon": "the add-on's function (DNS, network, volumes) stops",
    "aws:eks/accessEntry:AccessEntry": "that role loses access to the cluster",
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": "that role loses its permissions in the cluster",
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": "pods of that service account lose their credentials",
    "aws:kms/key:Key": "data encrypted with it is unreadable after 30 days; until then it can be restored",
    "aws:s3/bucket:Bucket": "loses its content",
    "aws:fsx/lustreFileSystem:LustreFileSystem": "pods lose their models; the bucket keeps its objects",
    "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation": "new objects of the bucket become invisible",
    "aws:sqs/queue:Queue": "loses the messages in it",
    "aws:iam/role:Role": "its users are refused",
    "aws:iam/openIdConnectProvider:OpenIdConnectProvider": "no service account can assume a role (IRSA) any more",
    "aws:ec2/vpcEndpoint:VpcEndpoint": "calls to that AWS service go through NAT, and fail without NAT",
    "aws:ec2/natGateway:NatGateway": "nodes of its zones lose internet access, or use another zone's",
    "aws:cloudwatch/logGroup:LogGroup": "loses its logs",
    "aws:cloudwatch/metricAlarm:MetricAlarm": "stops this notification",
    "aws:budgets/budget:Budget": "stops notifications about spending",
    "kubernetes:apps/v1:Deployment": "terminates its pods",
    "kubernetes:apps/v1:StatefulSet": "terminates its pods; volumes stay and are billed",
    "kubernetes:apps/v1:DaemonSet": "terminates its pods on every node",
    "kubernetes:core/v1:Service": "its callers fail; a load balancer behind it is deleted",
    "kubernetes:core/v1:Namespace": "deletes everything in the namespace, volumes included",
    "kubernetes:core/v1:PersistentVolumeClaim": "loses the volume's data",
    "kubernetes:core/v1:PersistentVolume": "pods that mount it keep it until they terminate, and cannot start again",
    "kubernetes:helm.sh/v3:Release": "uninstalls the chart; its custom resources may be deleted",
    "kubernetes:gateway.networking.k8s.io/v1:Gateway": "deletes the load balancer: clients cannot connect",
    "kubernetes:gateway.networking.k8s.io/v1:HTTPRoute": "HTTP requests for its model get 404",
    "kubernetes:gateway.networking.k8s.io/v1:GRPCRoute": "gRPC requests for its model fail",
    "kubernetes:gateway.envoyproxy.io/v1alpha1:SecurityPolicy": "removes its restriction of clients",
    "kubernetes:autoscaling/v2:HorizontalPodAutoscaler": "stops scaling",
    "aws:route53/record:Record": "its name no longer resolves",
    "kubernetes:karpenter.sh/v1:NodePool": "drains and removes its nodes",
    "kubernetes:keda.sh/v1alpha1:ScaledObject": "stops scaling",
    "kubernetes:policy/v1:PodDisruptionBudget": "a drain may remove all its pods at once",
    "kubernetes:networking.k8s.io/v1:NetworkPolicy": "removes its restriction of connections to the pods",
}

_CLUSTER, _VPC = "aws:eks/cluster:Cluster", "aws:ec2/vpc:Vpc"
_SUBNETS = "vpcConfig.subnetIds"
_KEY = "encryptionConfig.provider.keyArn"

_WITH_PODS = frozenset(f"kubernetes:apps/v1:{kind}" for kind in ("Deployment", "StatefulSet", "DaemonSet"))

_BY_ACTION: Mapping[str, Mapping[str, str]] = {"replace": _REPLACED, "delete": _DELETED}


def of(action: Literal["replace", "delete"], type_: str) -> str | None:
    """Return the outage as a clause without its subject; None without an entry."""
    return _BY_ACTION[action].get(type_)


def weight(type_: str) -> int:
    """Return the position of a type among the replaced types, for sorting. Unknown types come last."""
    return list(_REPLACED).index(type_) if type_ in _REPLACED else len(_REPLACED)


def types() -> frozenset[str]:
    """Return all types of the table."""
    return frozenset(_REPLACED) | frozenset(_DELETED)


def replaces_pods(step: Step) -> bool:
    """Return whether an in-place update replaces the pods. One changed pod label is enough."""
    return step.type in _WITH_PODS and any(f"{change.path}.".startswith("spec.template.") for change in step.changed)


def refusal(step: Step, replaced: Sequence[Step]) -> str | None:
    """Return the reason why the update `step` fails, as a clause, or None.

    The reason is the update itself, or one of the replacements.
    """
    return _refused_alone(step) or refused_beside(step, replaced)


def refused_beside(step: Step, replaced: Sequence[Step]) -> str | None:
    """Return the reason why these replacements make AWS refuse the update `step`.

    It is a clause; None if AWS accepts the update. EKS changes a cluster's subnets in place, but only to subnets of the
    cluster's VPC.
    """
    moves = step.type == _CLUSTER and any(change.path.startswith(_SUBNETS) for change in step.changed)
    if moves and any(other.type == _VPC for other in replaced):
        return "EKS refuses this update, because a cluster cannot change its VPC: plan a new stack instead"
    return None


def _refused_alone(step: Step) -> str | None:
    """Return the reason why the update `step` never takes effect, or None.

    The provider sets the key for secrets only on a cluster without one, and otherwise does nothing:
    https://github.com/hashicorp/terraform-provider-aws/blob/main/internal/service/eks/cluster.go (resourceClusterUpdate).
    """
    keys = step.action == "update" and step.type == _CLUSTER
    if keys and any(change.path.startswith(_KEY) and change.before != ABSENT for change in step.changed):
        return (
            "the provider does nothing here: a cluster keeps the key of its secrets, which are unreadable without it; "
            "keep that key, or plan a new stack"
        )
    return None
