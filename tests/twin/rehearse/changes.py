"""Changes of `prod`'s registrations, each with the expected result by hand from documentation and sources.

`op` is the engine's, `effect` the effect on serving. docs/rehearsal.md has the sources: the provider's schema (`ForceNew`),
and the documentation of AWS and Kubernetes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from twin.rehearse.judgement import Effect

ABSENT = object()
GONE: Mapping[str, Any] = {"": ABSENT}
"""The resource is no longer registered."""

NODES, CLUSTER = (
    "nodes-system-group (aws:eks/nodeGroup:NodeGroup)",
    "cluster-control-plane-eksCluster (aws:eks/cluster:Cluster)",
)
VPC, SUBNET = "network-vpc (aws:ec2/vpc:Vpc)", "network-private-us-west-2a (aws:ec2/subnet:Subnet)"
QUEUE, KEY = "requests-queue (aws:sqs/queue:Queue)", "models-encryption-key (aws:kms/key:Key)"
BUCKET, LOGS = "models-bucket (aws:s3/bucket:Bucket)", "cluster-log-group (aws:cloudwatch/logGroup:LogGroup)"
LIFECYCLE = "models-lifecycle (aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration)"
ROLE, ADDON = "model-reader-role (aws:iam/role:Role)", "addons-coredns (aws:eks/addon:Addon)"
ENDPOINT, NAT = (
    "network-endpoints-ecr-api (aws:ec2/vpcEndpoint:VpcEndpoint)",
    "network-nat-us-west-2a (aws:ec2/natGateway:NatGateway)",
)
ALARM = "requests-old-messages (aws:cloudwatch/metricAlarm:MetricAlarm)"
ENTRY = "cluster-control-plane-123456789012-platform-admin (aws:eks/accessEntry:AccessEntry)"
TRITON, SERVICE = (
    "triton-blue-chart:triton/triton-blue (kubernetes:apps/v1:Deployment)",
    "triton-blue-chart:triton/triton-blue (kubernetes:core/v1:Service)",
)
BUDGET = "triton-blue-chart:triton/triton-blue (kubernetes:policy/v1:PodDisruptionBudget)"
WORKERS, WARM = (
    "workers-chart:triton-worker/triton-worker (kubernetes:apps/v1:Deployment)",
    "warm-pods-blue-deployment (kubernetes:apps/v1:Deployment)",
)
NAMESPACE, RELEASE = "triton-namespace (kubernetes:core/v1:Namespace)", "keda-release (kubernetes:helm.sh/v3:Release)"
DASHBOARD = "monitoring-dashboard-triton-gpus (kubernetes:core/v1:ConfigMap)"
POOL = "karpenter-pool-g5 (kubernetes:karpenter.sh/v1:NodePool)"
CLASS = "karpenter-class-g5 (kubernetes:karpenter.k8s.aws/v1:EC2NodeClass)"
SCALING = "triton-blue-scaling-scaled-object (kubernetes:keda.sh/v1alpha1:ScaledObject)"
STORAGE = "monitoring-storage-class (kubernetes:storage.k8s.io/v1:StorageClass)"
IMAGE = "spec.template.spec.containers.0.image"


@dataclass(frozen=True)
class Seeded:
    """One change of a resource, and its expected result. `op` "same": the provider sees no change.

    `beside`: changes of other resources that the result depends on, and that are not judged.
    """

    says: str
    resource: str
    change: Mapping[str, Any]
    op: str
    effect: Effect
    beside: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


CHANGES = (
    Seeded("other instance types of a node group", NODES, {"instanceTypes": ["m7i.2xlarge"]}, "replace", "interrupted"),
    Seeded("a node group of spot instances", NODES, {"capacityType": "SPOT"}, "replace", "interrupted"),
    Seeded("another AMI release of the nodes", NODES, {"releaseVersion": "1.35.7-20260901"}, "update", "rolled"),
    Seeded("a larger disk: another version of the template", NODES, {"launchTemplate.version": "2"}, "update", "rolled"),
    Seeded("another launch template", NODES, {"launchTemplate.id": "lt-0123456789abcdef0"}, "replace", "interrupted"),
    Seeded("more nodes at most", NODES, {"scalingConfig.maxSize": 6}, "update", "none"),
    Seeded("a label of the nodes", NODES, {"labels.tier": "system"}, "update", "none"),
    Seeded("the subnets of the nodes in another order", NODES, {"subnetIds": "reversed"}, "same", "none"),
    Seeded("the nodes in one zone less", NODES, {"subnetIds": "shortened"}, "replace", "interrupted"),
    Seeded("the next minor version of Kubernetes", CLUSTER, {"version": "1.36"}, "update", "rolled"),
    Seeded("fewer logs of the control plane", CLUSTER, {"enabledClusterLogTypes": ["audit"]}, "update", "none"),
    Seeded("a public API endpoint", CLUSTER, {"vpcConfig.endpointPublicAccess": True}, "update", "none"),
    Seeded("the cluster in one subnet less", CLUSTER, {"vpcConfig.subnetIds": "shortened"}, "update", "none"),
    Seeded("another key of the cluster's secrets", CLUSTER, {"encryptionConfig.provider.keyArn": "k"}, "update", "refused"),
    Seeded("secrets without a key", CLUSTER, {"encryptionConfig": ABSENT}, "replace", "interrupted"),
    Seeded("another name of the cluster", CLUSTER, {"name": "triton-production"}, "replace", "interrupted"),
    Seeded(
        "other addresses of services",
        CLUSTER,
        {"kubernetesNetworkConfig": {"serviceIpv4Cidr": "10.100.0.0/16"}},
        "replace",
        "interrupted",
    ),
    Seeded("another network", VPC, {"cidrBlock": "10.99.0.0/16"}, "replace", "interrupted"),
    Seeded("a tag of the network", VPC, {"tags.owner": "platform"}, "update", "none"),
    Seeded("a smaller subnet", SUBNET, {"cidrBlock": "10.40.0.0/26"}, "replace", "interrupted"),
    Seeded("a NAT gateway in another subnet", NAT, {"subnetId": "subnet-0123456789abcdef0"}, "replace", "interrupted"),
    Seeded("an interface endpoint less", ENDPOINT, GONE, "delete", "interrupted"),
    Seeded("the subnets of an endpoint in another order", ENDPOINT, {"subnetIds": "reversed"}, "same", "none"),
    Seeded("a key that rotates more often", KEY, {"rotationPeriodInDays": 90}, "update", "none"),
    Seeded("a key less", KEY, GONE, "delete", "lost"),
    Seeded("another name of the model bucket", BUCKET, {"bucket": "triton-models-2"}, "replace", "lost"),
    Seeded("a tag of the model bucket", BUCKET, {"tags.owner": "platform"}, "update", "none"),
    Seeded(
        "earlier versions of models kept for a week",
        LIFECYCLE,
        {"rules.1.noncurrentVersionExpiration.noncurrentDays": 7},
        "update",
        "lost",
    ),
    Seeded("a longer time for an answer", QUEUE, {"visibilityTimeoutSeconds": 600}, "update", "none"),
    Seeded("messages kept for an hour", QUEUE, {"messageRetentionSeconds": 3600}, "update", "lost"),
    Seeded("messages kept for longer", QUEUE, {"messageRetentionSeconds": 1209600}, "update", "none"),
    Seeded("another name of the queue", QUEUE, {"name": "triton-prod-asked"}, "replace", "lost"),
    Seeded("logs kept for a week", LOGS, {"retentionInDays": 7}, "update", "lost"),
    Seeded("another key of the logs", LOGS, {"kmsKeyId": "arn:aws:kms:us-west-2:123456789012:key/k"}, "update", "none"),
    Seeded("another name of the logs", LOGS, {"name": "/triton/cluster"}, "replace", "lost"),
    Seeded("another trust of a role", ROLE, {"assumeRolePolicy": '{"Statement": []}'}, "update", "none"),
    Seeded("another path of a role", ROLE, {"path": "/triton/"}, "replace", "interrupted"),
    Seeded("another version of an add-on", ADDON, {"addonVersion": "v1.14.0-eksbuild.1"}, "update", "rolled"),
    Seeded("an alarm less", ALARM, GONE, "delete", "weakened"),
    Seeded("other groups of an administrator", ENTRY, {"kubernetesGroups": ["viewers"]}, "update", "none"),
    Seeded("another image of Triton on three pods", TRITON, {IMAGE: "triton:26.08"}, "update", "rolled"),
    Seeded(
        "another image of Triton on one pod, on a GPU that nobody else may have",
        TRITON,
        {IMAGE: "triton:26.08"},
        "update",
        "interrupted",
        {SCALING: {"spec.minReplicaCount": 1}},
    ),
    Seeded(
        "other labels by which Triton's pods are selected",
        TRITON,
        {"spec.selector.matchLabels.tier": "gpu"},
        "replace",
        "interrupted",
    ),
    Seeded("an annotation of Triton's Deployment", TRITON, {"metadata.annotations.note": "x"}, "update", "none"),
    Seeded("another image of the workers", WORKERS, {IMAGE: "worker:2"}, "update", "rolled"),
    Seeded("another image of the warm pods", WARM, {IMAGE: "pause:4"}, "update", "weakened"),
    Seeded("an annotation of Triton's Service", SERVICE, {"metadata.annotations.note": "x"}, "update", "none"),
    Seeded("another selector of Triton's Service", SERVICE, {"spec.selector.colour": "blue"}, "update", "interrupted"),
    Seeded("a Service without an address", SERVICE, {"spec.clusterIP": "None"}, "replace", "interrupted"),
    Seeded("a disruption budget less", BUDGET, GONE, "delete", "weakened"),
    Seeded("a namespace less", NAMESPACE, GONE, "delete", "lost"),
    Seeded("a label of a namespace", NAMESPACE, {"metadata.labels.team": "ml"}, "update", "none"),
    Seeded("another version of a chart", RELEASE, {"version": "2.99.0"}, "update", "rolled"),
    Seeded("a chart in another namespace", RELEASE, {"namespace": "scaling"}, "replace", "interrupted"),
    Seeded("another dashboard", DASHBOARD, {"data.extra": "{}"}, "replace", "none"),
    Seeded("other nodes for a pool of Karpenter's", POOL, {"spec.template.spec.expireAfter": "24h"}, "update", "rolled"),
    Seeded("more GPUs at most", POOL, {"spec.limits": {"nvidia.com/gpu": "64"}}, "update", "none"),
    Seeded("a pool of Karpenter's less", POOL, GONE, "delete", "interrupted"),
    Seeded("another AMI of a pool", CLASS, {"spec.amiSelectorTerms": [{"alias": "al2023@v20260901"}]}, "update", "rolled"),
    Seeded("more pods at most", SCALING, {"spec.maxReplicaCount": 12}, "update", "none"),
    Seeded("no autoscaling", SCALING, GONE, "delete", "weakened"),
    Seeded("another kind of volumes", STORAGE, {"parameters.type": "io2"}, "replace", "none"),
)
