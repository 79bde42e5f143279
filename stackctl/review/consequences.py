"""The consequences of replacing or deleting a resource: what goes down. A type that is not here is told without one.

Written for who approves: what stops, what is lost, what has to be done about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from stackctl.review.plan import Step

_REPLACED: Mapping[str, str] = {
    "aws:ec2/vpc:Vpc": "the whole network goes, and with it the cluster and everything on it: plan a new stack instead",
    "aws:ec2/subnet:Subnet": "nodes, endpoints and load balancers in it go; a cluster takes another one of its own VPC only",
    "aws:ec2/natGateway:NatGateway": "nodes of its zones have no way out until the new one is there; the address changes",
    "aws:ec2/eip:Eip": "the public address changes: allow lists elsewhere that have it break",
    "aws:ec2/internetGateway:InternetGateway": "everything loses the internet until the new one is attached",
    "aws:ec2/vpcEndpoint:VpcEndpoint": "calls of that service from private subnets fail until the new one is available",
    "aws:ec2/routeTable:RouteTable": "its subnets have no routes until the new one is associated",
    "aws:ec2/securityGroup:SecurityGroup": "connections that it allows end; AWS refuses while something uses it",
    "aws:ec2/launchTemplate:LaunchTemplate": "every node of its group is replaced, one after the other",
    "aws:eks/cluster:Cluster": "the whole cluster goes: Triton, gateway, monitoring. Nothing is answered meanwhile",
    "aws:eks/nodeGroup:NodeGroup": "all nodes of the group go, and their pods; new GPU nodes may find no capacity",
    "aws:eks/addon:Addon": "what the add-on does (DNS, network, volumes) stops until the new one runs",
    "aws:eks/accessEntry:AccessEntry": "that role has no access to the cluster meanwhile",
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": "that role has no permissions in the cluster meanwhile",
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": "new pods of that service account get no credentials meanwhile",
    "aws:kms/key:Key": "what the old key encrypted cannot be read once it is deleted, 30 days from then",
    "aws:s3/bucket:Bucket": "the bucket is emptied or its deletion fails; what reads it (Triton: models) fails",
    "aws:fsx/lustreFileSystem:LustreFileSystem": "pods that mount it lose their models; the new one loads the bucket anew",
    "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation": "new objects of the bucket are not seen meanwhile",
    "aws:sqs/queue:Queue": "messages in the queue are lost, and its URL changes for who sends",
    "aws:iam/role:Role": "its ARN may change: who uses it is refused until restarted with the new one",
    "aws:iam/openIdConnectProvider:OpenIdConnectProvider": "no service account takes a role (IRSA) meanwhile",
    "aws:cloudwatch/logGroup:LogGroup": "the logs in it are lost",
    "pulumi:providers:aws": "every AWS resource of the provider may be replaced with it",
    "pulumi:providers:kubernetes": "every Kubernetes object goes with it: look for the cluster in this list",
    "kubernetes:apps/v1:Deployment": "all of its pods end before new ones are there, unless the new one has another name",
    "kubernetes:apps/v1:StatefulSet": "all of its pods end before new ones are there; volumes stay",
    "kubernetes:apps/v1:DaemonSet": "it is on no node until the new one is there",
    "kubernetes:core/v1:Service": "its address changes, and a load balancer behind it is made anew with another name",
    "kubernetes:core/v1:Namespace": "everything in the namespace is deleted, volumes included",
    "kubernetes:core/v1:PersistentVolumeClaim": "the data of the volume is lost",
    "kubernetes:core/v1:PersistentVolume": "it waits until the pods that mount it end; pods that start wait for the new one",
    "kubernetes:helm.sh/v3:Release": "the chart is uninstalled and installed again; its custom resources may go",
    "kubernetes:gateway.networking.k8s.io/v1:Gateway": "the load balancer is made anew: clients need its new name",
    "kubernetes:gateway.networking.k8s.io/v1:HTTPRoute": "HTTP requests for its model get 404 until the new one is there",
    "kubernetes:gateway.networking.k8s.io/v1:GRPCRoute": "gRPC requests for its model find nothing meanwhile",
    "kubernetes:keda.sh/v1alpha1:ScaledObject": "nothing scales meanwhile; the number of pods stays",
    "kubernetes:karpenter.sh/v1:NodePool": "its nodes are drained and go",
}

_DELETED: Mapping[str, str] = {
    "aws:ec2/vpc:Vpc": "the whole network goes, with everything in it",
    "aws:ec2/subnet:Subnet": "nodes, endpoints and load balancers in it go",
    "aws:ec2/internetGateway:InternetGateway": "everything in the VPC loses the internet",
    "aws:ec2/routeTable:RouteTable": "its subnets have the routes of the VPC's main table alone",
    "aws:ec2/securityGroup:SecurityGroup": "connections that it allows end; AWS refuses while something uses it",
    "aws:eks/cluster:Cluster": "the whole cluster goes, with everything on it",
    "aws:eks/nodeGroup:NodeGroup": "all nodes of the group go, and the pods on them",
    "aws:eks/addon:Addon": "what the add-on does (DNS, network, volumes) ends",
    "aws:eks/accessEntry:AccessEntry": "that role has no access to the cluster any more",
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": "that role has no permissions in the cluster any more",
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": "pods of that service account get no credentials any more",
    "aws:kms/key:Key": "what it encrypted cannot be read 30 days from then; it can be rescued until",
    "aws:s3/bucket:Bucket": "what is in it is lost",
    "aws:fsx/lustreFileSystem:LustreFileSystem": "pods that mount it lose their models; what is in the bucket stays there",
    "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation": "new objects of the bucket are not seen any more",
    "aws:sqs/queue:Queue": "messages in it are lost",
    "aws:iam/role:Role": "who uses it is refused",
    "aws:iam/openIdConnectProvider:OpenIdConnectProvider": "no service account takes a role (IRSA) any more",
    "aws:ec2/vpcEndpoint:VpcEndpoint": "calls of that AWS service go through NAT, and fail where there is none",
    "aws:ec2/natGateway:NatGateway": "nodes of its zones lose the way out, or take another zone's",
    "aws:cloudwatch/logGroup:LogGroup": "the logs in it are lost",
    "aws:cloudwatch/metricAlarm:MetricAlarm": "nobody is told any more",
    "aws:budgets/budget:Budget": "nobody is told of spending any more",
    "kubernetes:apps/v1:Deployment": "its pods end",
    "kubernetes:apps/v1:StatefulSet": "its pods end; volumes stay and are billed",
    "kubernetes:apps/v1:DaemonSet": "its pods end, on every node",
    "kubernetes:core/v1:Service": "who calls it finds nothing; a load balancer behind it goes",
    "kubernetes:core/v1:Namespace": "everything in the namespace is deleted, volumes included",
    "kubernetes:core/v1:PersistentVolumeClaim": "the data of the volume is lost",
    "kubernetes:core/v1:PersistentVolume": "pods that mount it keep it until they end, and do not start again",
    "kubernetes:helm.sh/v3:Release": "what the chart runs ends; its custom resources may go",
    "kubernetes:gateway.networking.k8s.io/v1:Gateway": "clients find nothing: its load balancer goes",
    "kubernetes:gateway.networking.k8s.io/v1:HTTPRoute": "HTTP requests for its model get 404",
    "kubernetes:gateway.networking.k8s.io/v1:GRPCRoute": "gRPC requests for its model find nothing",
    "kubernetes:gateway.envoyproxy.io/v1alpha1:SecurityPolicy": "who may ask is not restricted by it any more",
    "kubernetes:autoscaling/v2:HorizontalPodAutoscaler": "nothing scales any more",
    "aws:route53/record:Record": "its name leads nowhere",
    "kubernetes:karpenter.sh/v1:NodePool": "its nodes are drained and go",
    "kubernetes:keda.sh/v1alpha1:ScaledObject": "nothing scales any more",
    "kubernetes:policy/v1:PodDisruptionBudget": "a drain may take all of its pods at once",
    "kubernetes:networking.k8s.io/v1:NetworkPolicy": "who may reach the pods is not restricted by it any more",
}

_WITH_PODS = frozenset(f"kubernetes:apps/v1:{kind}" for kind in ("Deployment", "StatefulSet", "DaemonSet"))

_BY_ACTION: Mapping[str, Mapping[str, str]] = {"replace": _REPLACED, "delete": _DELETED}


def of(action: Literal["replace", "delete"], type_: str) -> str | None:
    """Return what goes down, as half a sentence; None where this table does not know."""
    return _BY_ACTION[action].get(type_)


def weight(type_: str) -> int:
    """Return where the table has a type among what is replaced, for sorting; the types that it lacks come last."""
    return list(_REPLACED).index(type_) if type_ in _REPLACED else len(_REPLACED)


def types() -> frozenset[str]:
    """Return all types of the table."""
    return frozenset(_REPLACED) | frozenset(_DELETED)


def replaces_pods(step: Step) -> bool:
    """Return whether an update in place ends the pods that there are, and starts others: a label of theirs is enough."""
    return step.type in _WITH_PODS and any(f"{change.path}.".startswith("spec.template.") for change in step.changed)
