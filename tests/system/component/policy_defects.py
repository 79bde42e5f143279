"""One defect for each policy of the pack, as a change of a registration of the stack `prod`.

`seed` adds them to a recording of that stack, `tests/system/e2e/seeded_program.py` to the program that the engine runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from infra.aws.private_bucket import deny
from spec.iam_policy import document
from tests.policies.case import ABSENT, Path, changed
from tests.system.component.engine.recording import Recording, Registration, Values

_ANNOTATION = "service.beta.kubernetes.io/aws-load-balancer"
_SERVICE = ("spec", "provider", "kubernetes", "envoyService")
_POD = "spec.template.spec"
_CONTAINER = f"{_POD}.containers[0]"
_CLUSTER, _TEMPLATE = "cluster-control-plane-eksCluster", "nodes-system-template"
_TRITON, _WORKER = "triton-blue-chart:triton/triton-blue", "workers-chart:triton-worker/triton-worker"
_OTHERS = {"matchLabels": {"app.kubernetes.io/name": "another"}}
_DEFAULT_PROVIDER = "default_4_34_2"
_OTHERS_READ = json.dumps(
    {"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::222222222222:root"}, "Action": "kms:Decrypt", "Resource": "*"}
)
_PLAIN_HTTP = {"Bool": {"aws:SecureTransport": "false"}}
_MODELS = "arn:aws:s3:::triton-models-prod-123456789012-us-west-2"


@dataclass(frozen=True)
class Seeded:
    """A defect. Without a change, the resource is removed. `adds`: the type of a new resource.

    A value may be a function of the old value, which a first preview has to know. `kind`: the kind, for objects of a chart
    that share a name. `sources`: property -> the present source of its value. `told`: the resource that the policy names, if
    it is another one; "" for the stack. `level`: the level of the violation.
    """

    resource: str
    change: Mapping[Path, Any] | None = None
    kind: str = ""
    adds: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    told: str | None = None
    level: str = "mandatory"

    @property
    def at_fault(self) -> str:
        """Return the name in the message."""
        return self.resource if self.told is None else self.told

    def changes(self, type: str, name: str, custom: bool) -> bool:
        """Return whether the defect belongs to this resource."""
        if self.adds or name != self.resource:
            return False
        return type.endswith(f":{self.kind}") if self.kind else custom

    def changed(self, values: Values) -> Values:
        """Return the properties of its resource, with the defect."""
        made = dict(self.change or {})
        for path, value in made.items():
            if callable(value):
                node: Any = values
                for key in str(path).replace("[", ".").replace("]", "").split("."):
                    node = node[int(key) if key.isdigit() else key]
                made[path] = value(node)
        return changed(values, made)


def _swap(old: str, new: str) -> Callable[[str], str]:
    def swapped(text: str) -> str:
        assert old in text, f"there is no {old} in {text}: the defect would be none"
        return text.replace(old, new)

    return swapped


def _and(member: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda members: [*members, member]


DEFECTS: Mapping[str, Seeded] = {
    "eks-endpoint-not-world": Seeded(_CLUSTER, {"vpcConfig.endpointPublicAccess": True}),
    "eks-api-private-sources": Seeded("cluster-api-from-10.40.0.0-16", {"cidrIpv4": "198.51.100.0/24"}),
    "eks-secrets-kms": Seeded(_CLUSTER, {"encryptionConfig": ABSENT}),
    "eks-control-plane-logs": Seeded(_CLUSTER, {"enabledClusterLogTypes": ["api"]}),
    "eks-auth-api-only": Seeded(_CLUSTER, {"accessConfig.authenticationMode": "API_AND_CONFIG_MAP"}),
    "eks-version-supported": Seeded(_CLUSTER, {"version": "1.32"}),
    "eks-version-ageing": Seeded("ageing-cluster", {"version": "1.34"}, adds="aws:eks/cluster:Cluster", level="advisory"),
    "eks-deletion-protection": Seeded(_CLUSTER, {"deletionProtection": False}),
    "eks-addons-pinned": Seeded("unpinned-addon", {"addonName": "coredns"}, adds="aws:eks/addon:Addon"),
    "eks-access-admin-limit": Seeded(
        "cluster-control-plane-123456789012-platform-admin-admin", {"principalArn": _swap("platform-admin", "intern")}
    ),
    "ng-private-subnets": Seeded(
        "network-private-default-us-west-2a",
        {"natGatewayId": ABSENT},
        sources={"gatewayId": "network-internet-gateway"},
        told="nodes-system-group",
    ),
    "ng-gpu-ami-matches": Seeded("nodes-system-group", {"amiType": "AL2023_x86_64_NVIDIA"}),
    "ng-gpu-taint-label": Seeded("karpenter-pool-g5", {"spec.template.spec.taints": []}),
    "ng-instance-allowlist": Seeded("karpenter-pool-p4d", {"spec.template.spec.requirements[0].values": ["p3.2xlarge"]}),
    "ng-max-size-cap": Seeded("karpenter-pool-p4d", {("spec", "limits", "nvidia.com/gpu"): "64"}, told=""),
    "ng-no-ssh": Seeded("ssh-template", {"keyName": "mine"}, adds="aws:ec2/launchTemplate:LaunchTemplate"),
    "lt-imdsv2": Seeded(_TEMPLATE, {"metadataOptions.httpTokens": "optional"}),
    "lt-encrypted-gp3": Seeded("karpenter-class-g5", {"spec.blockDeviceMappings[0].ebs.encrypted": False}),
    "lt-no-public-address": Seeded("karpenter-class-p4d", {"spec.associatePublicIPAddress": True}),
    "ng-release-pinned": Seeded("karpenter-class-g5", {"spec.amiSelectorTerms[0].alias": "al2023@latest"}),
    "karpenter-pool-limits": Seeded("karpenter-pool-g5", {"spec.disruption.budgets": []}),
    "vpc-flow-logs": Seeded("network-flow-logs-flow-log", told="network-vpc"),
    "vpc-endpoints-present": Seeded("network-endpoints-sts", told="network-vpc", level="advisory"),
    "sg-no-world-ingress": Seeded("network-endpoints-https", {"cidrIpv4": "0.0.0.0/0"}),
    "sg-default-locked": Seeded("network-default-security-group", told="network-vpc"),
    "nat-ha-in-prod": Seeded("network-nat-us-west-2c", told="network-vpc", level="advisory"),
    "subnet-no-public-address": Seeded("network-public-us-west-2a", {"mapPublicIpOnLaunch": True}),
    "region-allowed": Seeded("network-intra-us-west-2c", {"availabilityZone": "us-east-1c"}),
    "iam-no-wildcard": Seeded("monitoring-alertmanager-policy", {"policy": _swap("sns:Publish", "sns:*")}),
    "iam-trust-bounded": Seeded(
        "addons-ebs-csi-role", {"assumeRolePolicy": _swap("kubernetes-service-account", "kubernetes-pod-name")}
    ),
    "other-accounts-named": Seeded(
        "models-encryption-key", {"policy": _swap('"Statement": [', f'"Statement": [{_OTHERS_READ}, ')}
    ),
    "iam-no-admin-policy": Seeded(
        "nodes-AmazonEKSWorkerNodePolicy", {"policyArn": _swap("AmazonEKSWorkerNodePolicy", "AdministratorAccess")}
    ),
    "iam-managed-policy-current": Seeded(
        "addons-ebs-csi-AmazonEBSCSIDriverEKSClusterScopedPolicy",
        {"policyArn": _swap("AmazonEBSCSIDriverEKSClusterScopedPolicy", "service-role/AmazonEBSCSIDriverPolicy")},
    ),
    "iam-no-static-keys": Seeded("someones-key", {}, adds="aws:iam/accessKey:AccessKey"),
    "kms-rotation": Seeded("logs-key", {"enableKeyRotation": False}),
    "logs-retention-kms": Seeded("cluster-log-group", {"retentionInDays": 1}),
    "s3-public-access-blocked": Seeded("models-public-access", {"blockPublicPolicy": False}),
    "s3-kms-encrypted": Seeded(
        "models-default-encryption", {"rules[0].applyServerSideEncryptionByDefault": {"sseAlgorithm": "AES256"}}
    ),
    "s3-customer-keys-blocked": Seeded("models-default-encryption", {"rules[0].blockedEncryptionTypes": ["NONE"]}),
    "s3-tls-only": Seeded(
        "models-policy", {"policy": document(deny("TlsOnly", "s3:GetObject", [_MODELS, f"{_MODELS}/*"], _PLAIN_HTTP))}
    ),
    "s3-no-acls": Seeded("models-ownership", {"rule.objectOwnership": "ObjectWriter"}),
    "s3-locked-down": Seeded("requests-results-ownership", told="requests-results-bucket"),
    "s3-models-kept": Seeded("models-bucket", {}, options={"protect": False}),
    "ecr-immutable-scanned": Seeded("images", {"imageTagMutability": "MUTABLE"}, adds="aws:ecr/repository:Repository"),
    "ecr-lifecycle": Seeded("more-images", {"name": "more"}, adds="aws:ecr/repository:Repository"),
    "sqs-encrypted": Seeded("requests-queue", {"kmsMasterKeyId": ABSENT}),
    "sqs-tls-only": Seeded("requests-policy", {"policy": document(deny("TlsOnly", "sqs:SendMessage", ["*"], _PLAIN_HTTP))}),
    "sqs-policy-present": Seeded("karpenter-interruptions-policy", told="karpenter-interruptions-queue"),
    "sqs-dead-letters": Seeded("requests-queue", {"redrivePolicy": ABSENT}),
    "alarms-heard": Seeded("requests-old-messages", {"alarmActions": []}),
    "pod-privileges": Seeded(_WORKER, {f"{_POD}.hostNetwork": True}, "Deployment"),
    "pod-resources": Seeded(_WORKER, {f"{_CONTAINER}.resources.limits": ABSENT}, "Deployment"),
    "pod-images": Seeded(_WORKER, {f"{_CONTAINER}.image": "docker.io/someone/worker:latest"}, "Deployment"),
    "pod-gpu-toleration": Seeded("warm-pods-blue-deployment", {f"{_POD}.tolerations": []}),
    "pod-no-plain-secrets": Seeded(
        _WORKER, {f"{_CONTAINER}.env": _and({"name": "DB_PASSWORD", "value": "hunter2"})}, "Deployment"
    ),
    "pod-no-api-token": Seeded(_WORKER, {f"{_POD}.automountServiceAccountToken": True}, "Deployment"),
    "pod-namespace": Seeded("warm-pods-blue-deployment", {"metadata.namespace": "default"}),
    "namespace-pod-security": Seeded("triton-namespace", {"metadata.labels": ABSENT}),
    "rbac-no-cluster-secrets": Seeded(
        "reader-of-secrets",
        {"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]},
        adds="kubernetes:rbac.authorization.k8s.io/v1:ClusterRole",
    ),
    "pod-network-policy": Seeded(_WORKER, {"spec.podSelector": _OTHERS}, "NetworkPolicy"),
    "triton-probes": Seeded(_TRITON, {f"{_CONTAINER}.livenessProbe": ABSENT}, "Deployment"),
    "triton-drain": Seeded(_TRITON, {f"{_POD}.terminationGracePeriodSeconds": 31}, "Deployment"),
    "triton-release": Seeded(_TRITON, {f"{_CONTAINER}.args": _and("--model-control-mode=poll")}, "Deployment"),
    "release-signed": Seeded(_TRITON, {f"{_POD}.initContainers[0].env": []}, "Deployment"),
    "triton-disruption": Seeded(_TRITON, {"spec.selector": _OTHERS}, "PodDisruptionBudget"),
    "triton-scraped": Seeded("monitoring-podmonitor-triton", told=_TRITON),
    "scaling-bounds": Seeded("triton-blue-scaling-scaled-object", {"spec.maxReplicaCount": 100}),
    "scaling-signal": Seeded("triton-blue-scaling-scaled-object", {"spec.fallback": ABSENT}),
    "scaling-one-owner": Seeded(_WORKER, {"spec.replicas": 3}, "Deployment", options={"ignore_changes": ()}),
    "service-not-public": Seeded(_TRITON, {"spec.type": "NodePort"}, "Service"),
    "helm-pinned": Seeded("keda-release", {"repositoryOpts.repo": "https://charts.example.com"}),
    "gateway-not-public": Seeded(
        "gateway-envoyproxy", {(*_SERVICE, "annotations", f"{_ANNOTATION}-scheme"): "internet-facing"}
    ),
    "gateway-clients-known": Seeded(
        "gateway-envoyproxy", {(*_SERVICE, "annotations", f"{_ANNOTATION}-scheme"): "internet-facing"}
    ),
    "gateway-tls": Seeded(
        "gateway-envoyproxy", {(*_SERVICE, "annotations", f"{_ANNOTATION}-ssl-cert"): ABSENT}, told="gateway-gateway"
    ),
    "gateway-routes-bounded": Seeded("gateway-gateway", {"spec.listeners[0].allowedRoutes.namespaces.from": "All"}),
    "k8s-explicit-provider": Seeded("triton-namespace", {}, options={"provider": _DEFAULT_PROVIDER}),
    "tags-required": Seeded("requests-queue", {"tags.project": ABSENT}),
    "lasting-protected": Seeded("network-vpc", {}, options={"protect": False}),
    "budget-present": Seeded("cost-budget", told="", level="advisory"),
}
"""Policy -> its defect."""


def seed(recording: Recording, defects: Mapping[str, Seeded] = DEFECTS) -> Recording:
    """Return the recording with all defects. Raises AssertionError for a defect that changes nothing."""
    items = [*recording.registrations, _made("pulumi:providers:kubernetes", _DEFAULT_PROVIDER, {}, recording)]
    for policy, defect in defects.items():
        if defect.adds:
            items.append(_made(defect.adds, defect.resource, defect.changed({}), recording))
            continue
        found = [item for item in items if defect.changes(item.type, item.name, item.custom)]
        assert len(found) == 1, f"{policy}: {len(found)} resources are {defect.resource} {defect.kind}"
        items[items.index(found[0])] = _with(found[0], defect, items)
        if defect.change is None:
            items = [item for item in items if item.urn != found[0].urn]
    return Recording(items, recording.exports)


def _with(item: Registration, defect: Seeded, items: list[Registration]) -> Registration:
    sources = {key: (next(one.urn for one in items if one.name == name),) for key, name in defect.sources.items()}
    options = dict(defect.options)
    if "provider" in options:
        options["provider"] = next(one.urn for one in items if one.name == options["provider"]) + "::id"
    return replace(
        item,
        inputs=defect.changed(item.inputs),
        checked=defect.changed(item.checked) if item.checked else {},
        outputs=defect.changed(item.outputs) if item.outputs else {},
        sources={**item.sources, **sources},
        **options,
    )


def _made(type: str, name: str, inputs: dict[str, Any], recording: Recording) -> Registration:
    stack_and_project = "::".join(recording.registrations[0].urn.split("::")[:2])
    own = next(item for item in recording.registrations if item.type == "pulumi:providers:kubernetes")
    provider = {"provider": f"{own.urn}::id"} if type.startswith("kubernetes:") else {}
    urn = f"{stack_and_project}::{type}::{name}"
    return Registration(urn=urn, type=type, name=name, inputs=inputs, custom=True, **provider)
