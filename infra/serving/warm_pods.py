"""Pods that do nothing but hold nodes ready: they give way to Triton's, and a new node is started for them instead.

They run Triton's own image, so that a node that they hold has it already: pulling it is most of a start.
"""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as k8s

from infra.aws.cluster_access import ClusterAccess
from infra.platform.installed_chart import namespace
from spec.gpu_pool import GPU_TAINT, POOL_LABEL, gpu_resource
from spec.names import WARM_PODS_NAMESPACE
from spec.settings.gpu import GpuPool
from spec.settings.model import Settings
from spec.settings.triton import Triton

PRIORITY_CLASS = "triton-warm"
_NAME = "triton-warm"
# Below every pod that does something, and not below -10, where cluster-autoscaler starts no node for a pod any more.
_PRIORITY = -10
_USER = 65534


def keep_nodes_warm(cluster: ClusterAccess, settings: Settings, after: Sequence[pulumi.Resource]) -> None:
    """Hold GPU nodes ready where the stack asks for it. `after`: what brings nodes with GPUs."""
    replicas = settings.autoscaling.warm_pods if settings.autoscaling is not None else 0
    if replicas:
        opts = pulumi.ResourceOptions(depends_on=list(after))
        WarmPods("warm-pods", cluster, settings.triton, settings.triton_pool, replicas=replicas, opts=opts)


class WarmPods(pulumi.ComponentResource):
    """A Deployment of pods of Triton's size on Triton's pool, in a namespace of its own, with the lowest priority."""

    def __init__(
        self,
        name: str,
        cluster: ClusterAccess,
        server: Triton,
        pool: GpuPool,
        *,
        replicas: int,
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
        # They talk to nobody: whoever took one over would otherwise have the cluster's network.
        k8s.networking.v1.NetworkPolicy(
            f"{name}-silence",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=_NAME, namespace=WARM_PODS_NAMESPACE, labels=labels),
            spec=k8s.networking.v1.NetworkPolicySpecArgs(
                pod_selector=k8s.meta.v1.LabelSelectorArgs(match_labels=labels), policy_types=["Ingress", "Egress"]
            ),
            opts=cluster.in_cluster(self, own_namespace),
        )
        k8s.apps.v1.Deployment(
            f"{name}-deployment",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=_NAME,
                namespace=WARM_PODS_NAMESPACE,
                labels=labels,
                # They wait for nodes, and nothing waits for them.
                annotations={"pulumi.com/skipAwait": "true"},
            ),
            spec=k8s.apps.v1.DeploymentSpecArgs(
                replicas=replicas,
                # With no GPU to spare, a surge would wait for a node and then hold it.
                strategy=k8s.apps.v1.DeploymentStrategyArgs(type="Recreate"),
                selector=k8s.meta.v1.LabelSelectorArgs(match_labels=labels),
                template=k8s.core.v1.PodTemplateSpecArgs(
                    metadata=k8s.meta.v1.ObjectMetaArgs(labels=labels), spec=_pod(server, pool)
                ),
            ),
            opts=cluster.in_cluster(self, own_namespace, priority),
        )
        self.register_outputs({})


def _pod(server: Triton, pool: GpuPool) -> k8s.core.v1.PodSpecArgs:
    size = {
        "cpu": server.cpu,
        "memory": f"{server.memory_gib}Gi",
        gpu_resource(pool.sharing): str(server.gpus),
    }
    return k8s.core.v1.PodSpecArgs(
        priority_class_name=PRIORITY_CLASS,
        # Gone at once: somebody who has something to do wants the place.
        termination_grace_period_seconds=0,
        automount_service_account_token=False,
        enable_service_links=False,
        node_selector={POOL_LABEL: pool.name},
        tolerations=[
            k8s.core.v1.TolerationArgs(key=GPU_TAINT.key, operator="Equal", value=GPU_TAINT.value, effect=GPU_TAINT.effect)
        ],
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
