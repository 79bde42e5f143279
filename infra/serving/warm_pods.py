"""Placeholder pods that hold nodes ready. Triton's pods replace them, and a new node starts for the placeholders instead.

They use Triton's image, so their nodes already have it; pulling it is most of a start.
"""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as k8s

from infra.aws.cluster_access import ClusterAccess
from infra.platform.installed_chart import namespace
from spec.names import FLEET_LABEL, WARM_PODS_NAMESPACE
from spec.placement import placement, resource_of
from spec.settings.chart_values import values_of
from spec.settings.fields import cpu_millis
from spec.settings.fleets import Fleet
from spec.settings.model import Settings

PRIORITY_CLASS = "triton-warm"
_NAME = "triton-warm"
# Lower than any working pod, but not below -10, where cluster-autoscaler stops starting nodes for a pod.
_PRIORITY = -10
_USER = 65534


def keep_nodes_warm(cluster: ClusterAccess, settings: Settings, after: Sequence[pulumi.Resource]) -> None:
    """Hold nodes ready if the stack configures it. `after` are the prerequisites of Triton's nodes."""
    fleets = [fleet for fleet in settings.each_fleet if _replicas(fleet)]
    if fleets:
        WarmPods("warm-pods", cluster, fleets, pulumi.ResourceOptions(depends_on=list(after)))


class WarmPods(pulumi.ComponentResource):
    """A Deployment for each fleet, of its pods' size on its pool. It has a separate namespace and the lowest priority."""

    def __init__(
        self,
        name: str,
        cluster: ClusterAccess,
        fleets: Sequence[Fleet[Settings]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("triton:serving:WarmPods", name, None, opts)
        own_namespace = namespace(f"{name}-namespace", WARM_PODS_NAMESPACE, "restricted", cluster.in_cluster(self))
        priority = k8s.scheduling.v1.PriorityClass(
            f"{name}-priority",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=PRIORITY_CLASS),
            value=_PRIORITY,
            preemption_policy="Never",
            description="Pods that hold nodes ready and give way to any other",
            opts=cluster.in_cluster(self),
        )
        labels = {"app.kubernetes.io/name": _NAME}
        # They need no network, and a compromised pod must not have it.
        k8s.networking.v1.NetworkPolicy(
            f"{name}-silence",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=_NAME, namespace=WARM_PODS_NAMESPACE, labels=labels),
            spec=k8s.networking.v1.NetworkPolicySpecArgs(
                pod_selector=k8s.meta.v1.LabelSelectorArgs(match_labels=labels), policy_types=["Ingress", "Egress"]
            ),
            opts=cluster.in_cluster(self, own_namespace),
        )
        for fleet in fleets:
            suffix, label = ("", {}) if fleet.name is None else (f"-{fleet.name}", {FLEET_LABEL: fleet.name})
            own = {**labels, **label}
            k8s.apps.v1.Deployment(
                f"{name}{suffix}-deployment",
                metadata=k8s.meta.v1.ObjectMetaArgs(
                    name=f"{_NAME}{suffix}",
                    namespace=WARM_PODS_NAMESPACE,
                    labels=own,
                    # They wait for nodes, and no resource depends on them.
                    annotations={"pulumi.com/skipAwait": "true"},
                ),
                spec=k8s.apps.v1.DeploymentSpecArgs(
                    replicas=_replicas(fleet),
                    # Without a spare GPU, a surge pod would wait for a node and then hold it.
                    strategy=k8s.apps.v1.DeploymentStrategyArgs(type="Recreate"),
                    selector=k8s.meta.v1.LabelSelectorArgs(match_labels=own),
                    template=k8s.core.v1.PodTemplateSpecArgs(
                        metadata=k8s.meta.v1.ObjectMetaArgs(labels=own), spec=_pod(fleet.stack)
                    ),
                ),
                opts=cluster.in_cluster(self, own_namespace, priority),
            )
        self.register_outputs({})


def _replicas(fleet: Fleet[Settings]) -> int:
    return fleet.stack.autoscaling.warm_pods if fleet.stack.autoscaling is not None else 0


def _pod(settings: Settings) -> k8s.core.v1.PodSpecArgs:
    server, group = settings.triton, settings.triton_nodes
    placed, size, others = placement(group), {"cpu": server.cpu, "memory": f"{server.memory_gib}Gi"}, values_of(settings)
    # Include the other containers of Triton's pod; otherwise the node would have no room for them.
    if others.beside_millis:
        size["cpu"] = f"{cpu_millis(server.cpu) + others.beside_millis}m"
    if others.beside:
        size["memory"] = f"{server.memory_gib * 1024 + others.beside}Mi"
    if server.gpus:
        size[resource_of(group)] = str(server.gpus)
    return k8s.core.v1.PodSpecArgs(
        priority_class_name=PRIORITY_CLASS,
        # They stop at once, because another pod needs the room.
        termination_grace_period_seconds=0,
        automount_service_account_token=False,
        enable_service_links=False,
        node_selector=placed["nodeSelector"],
        tolerations=[k8s.core.v1.TolerationArgs(**toleration) for toleration in placed["tolerations"]],
        security_context=k8s.core.v1.PodSecurityContextArgs(
            run_as_non_root=True,
            run_as_user=_USER,
            run_as_group=_USER,
            seccomp_profile=k8s.core.v1.SeccompProfileArgs(type="RuntimeDefault"),
        ),
        containers=[
            k8s.core.v1.ContainerArgs(
                name="wait",
                image=server.image,
                command=["sleep", "infinity"],
                resources=k8s.core.v1.ResourceRequirementsArgs(requests=size, limits=size),
                security_context=k8s.core.v1.SecurityContextArgs(
                    allow_privilege_escalation=False,
                    read_only_root_filesystem=True,
                    capabilities=k8s.core.v1.CapabilitiesArgs(drop=["ALL"]),
                ),
            )
        ],
    )
