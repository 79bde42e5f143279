"""The cluster permissions of `cluster.rolloutRoleArns`."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as k8s

from infra.aws.cluster_access import ClusterAccess
from spec.names import ROLLOUTS, SERVED_VERSIONS, TRITON_NAMESPACE


class RolloutAccess(pulumi.ComponentResource):
    """A Role in Triton's namespace for the requests of `modelctl`'s commands on pods. It is bound to a group.

    docs/private-api.md#pods lists the verbs of each command. With `in_place`, the commands load models and read each pod's
    admin key by `exec`. `opts.depends_on` has to name the namespace.
    """

    def __init__(
        self, name: str, cluster: ClusterAccess, *, in_place: bool, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("triton:serving:RolloutAccess", name, None, opts)
        child = cluster.in_cluster(self)
        metadata = k8s.meta.v1.ObjectMetaArgs(name=ROLLOUTS, namespace=TRITON_NAMESPACE)
        k8s.rbac.v1.Role(
            f"{name}-role",
            metadata=metadata,
            rules=[
                _rule("endpointslices", "list", group="discovery.k8s.io"),
                _rule("pods", "get", "delete"),
                # A WebSocket is opened by GET. Since Kubernetes 1.35 this requires create too.
                _rule("pods/portforward", "get", "create"),
                *([_rule("pods/exec", "get", "create")] if in_place else []),
                _rule("configmaps", "get", "update", names=[SERVED_VERSIONS]),
                _rule("configmaps", "create"),  # RBAC does not know the name of a new object
            ],
            opts=child,
        )
        k8s.rbac.v1.RoleBinding(
            f"{name}-binding",
            metadata=metadata,
            role_ref=k8s.rbac.v1.RoleRefArgs(api_group="rbac.authorization.k8s.io", kind="Role", name=ROLLOUTS),
            subjects=[k8s.rbac.v1.SubjectArgs(api_group="rbac.authorization.k8s.io", kind="Group", name=ROLLOUTS)],
            opts=child,
        )
        self.register_outputs({})


def _rule(resource: str, *verbs: str, group: str = "", names: list[str] | None = None) -> k8s.rbac.v1.PolicyRuleArgs:
    return k8s.rbac.v1.PolicyRuleArgs(api_groups=[group], resources=[resource], verbs=list(verbs), resource_names=names)
