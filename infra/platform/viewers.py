"""The cluster permissions of `cluster.viewRoleArns`: a preview reads all objects of the program, but no Secrets."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as k8s

from infra.aws.cluster_access import ClusterAccess
from spec.names import VIEWERS

CORE = (
    *("configmaps", "endpoints", "events", "limitranges", "namespaces", "nodes", "persistentvolumeclaims"),
    *("persistentvolumes", "pods", "replicationcontrollers", "resourcequotas", "serviceaccounts", "services"),
)
"""Listed by name: this group also has Secrets, and subresources of pods and nodes give access to containers."""
GROUPS = (
    *("admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "apps", "autoscaling", "batch"),
    *("discovery.k8s.io", "networking.k8s.io", "policy", "rbac.authorization.k8s.io"),
    *("scheduling.k8s.io", "storage.k8s.io"),
    *("external-secrets.io", "gateway.envoyproxy.io", "gateway.networking.k8s.io", "karpenter.k8s.aws", "karpenter.sh"),
    *("keda.sh", "monitoring.coreos.com"),
)
_READ = ("get", "list", "watch")


class ViewAccess(pulumi.ComponentResource):
    """A ClusterRole bound to the group of the viewers' access entries.

    AWS's AmazonEKSAdminViewPolicy also reads Secrets and kubelets; its AmazonEKSViewPolicy shows no custom resources.
    """

    def __init__(self, name: str, cluster: ClusterAccess) -> None:
        super().__init__("triton:platform:ViewAccess", name, None, None)
        child = cluster.in_cluster(self)
        metadata = k8s.meta.v1.ObjectMetaArgs(name=VIEWERS)
        k8s.rbac.v1.ClusterRole(
            f"{name}-role",
            metadata=metadata,
            rules=[
                k8s.rbac.v1.PolicyRuleArgs(api_groups=[""], resources=list(CORE), verbs=list(_READ)),
                k8s.rbac.v1.PolicyRuleArgs(api_groups=list(GROUPS), resources=["*"], verbs=list(_READ)),
            ],
            opts=child,
        )
        k8s.rbac.v1.ClusterRoleBinding(
            f"{name}-binding",
            metadata=metadata,
            role_ref=k8s.rbac.v1.RoleRefArgs(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name=VIEWERS),
            subjects=[k8s.rbac.v1.SubjectArgs(api_group="rbac.authorization.k8s.io", kind="Group", name=VIEWERS)],
            opts=child,
        )
        self.register_outputs({})
