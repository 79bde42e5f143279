"""Karpenter: starts nodes for pending pods and removes empty nodes."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_aws as aws

from infra.aws.cluster_access import ClusterAccess
from infra.aws.identity import WorkloadRoleArgs, associate
from infra.platform import pod_identity
from infra.platform.installed_chart import InstalledChart, chart_values, custom_resource
from infra.platform.karpenter_policy import controller_policy
from infra.platform.karpenter_pools import cpu_pool_spec, node_class_spec, node_pool_spec
from infra.platform.node_interruptions import NodeInterruptions
from spec.capacity import packs_pods
from spec.catalog import INVISIBLE_MEMORY_SHARE
from spec.charts import KARPENTER, KARPENTER_CRDS
from spec.names import KARPENTER as CONTROLLER
from spec.settings import Settings
from spec.settings.gpu import GpuPool
from spec.settings.nodes import CpuPool


class Karpenter(InstalledChart):
    """The two pinned charts (CRDs and controller), the controller's role and interruption queue, and the NodePools.

    Each GPU pool and the workers' nodes have a NodePool. The nodes use `node_role_name`, the role of the managed nodes, for
    which EKS has created the access entry to join. `opts.depends_on` has to name the system nodes and the Pod Identity
    agent.
    """

    def __init__(
        self,
        name: str,
        cluster: ClusterAccess,
        settings: Settings,
        *,
        node_role_name: pulumi.Input[str],
        node_role_arn: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("triton:platform:Karpenter", name, cluster, opts)
        interruptions = NodeInterruptions(f"{name}-interruptions", cluster.stack, pulumi.ResourceOptions(parent=self))
        identity = self._identity(node_role_arn, interruptions.arn)
        # Installing the CRDs gives the association time to take effect. An earlier pod still gets its credentials late
        # (pod_identity.py), well within Helm's waiting time.
        crds = self._install(KARPENTER_CRDS, CONTROLLER.namespace, {}, identity, name="crds")
        chart = values(cluster, interruptions.queue_name, monitored=settings.monitoring is not None)
        controller = self._install(KARPENTER, CONTROLLER.namespace, chart, crds, interruptions)
        profile = aws.iam.InstanceProfile(
            f"{name}-nodes",
            role=node_role_name,
            tags=cluster.stack.named(f"{cluster.stack.cluster_name}-karpenter-nodes"),
            opts=pulumi.ResourceOptions(parent=self),
        )
        pools: list[GpuPool | CpuPool] = [*settings.gpu.pools]
        if settings.nodes.cpu is not None:
            pools.append(settings.nodes.cpu)
        for pool in pools:
            node_class = custom_resource(
                f"{name}-class-{pool.name}",
                {
                    "apiVersion": "karpenter.k8s.aws/v1",
                    "kind": "EC2NodeClass",
                    "metadata": {"name": pool.name},
                    "spec": node_class_spec(pool, cluster, profile.name),
                },
                self._after(controller),
            )
            custom_resource(
                f"{name}-pool-{pool.name}",
                {
                    "apiVersion": "karpenter.sh/v1",
                    "kind": "NodePool",
                    "metadata": {"name": pool.name},
                    "spec": _node_pool_spec(settings, pool),
                },
                # The pool and its nodes are deleted first, because a class in use by nodes cannot be deleted.
                self._after(node_class),
            )
        self.register_outputs({})

    def _identity(self, node_role_arn: pulumi.Input[str], queue_arn: pulumi.Output[str]) -> pulumi.Resource:
        stack = self._cluster.stack
        role = self._role(
            f"{self._name}-controller",
            WorkloadRoleArgs(
                description=f"Karpenter of {stack.cluster_name}",
                service_account=CONTROLLER,
                identity="associated",
                policy=pulumi.Output.all(node_role_arn, queue_arn).apply(
                    lambda known: controller_policy(stack.account, self._cluster.known_name, known[0], known[1])
                ),
            ),
        )
        # It keeps its original names, because EKS refuses a second association of a service account.
        child = pulumi.ResourceOptions(parent=self)
        return associate(f"{self._name}-identity", self._cluster, CONTROLLER, role.arn, child)


def _node_pool_spec(settings: Settings, pool: GpuPool | CpuPool) -> dict[str, Any]:
    if isinstance(pool, CpuPool):
        return cpu_pool_spec(pool)
    return node_pool_spec(pool, packed=packs_pods(settings, pool))


def values(cluster: ClusterAccess, interruption_queue: str, *, monitored: bool) -> dict[str, Any]:
    """Return the controller's values."""
    return chart_values(
        KARPENTER,
        {
            "settings": {
                "clusterName": cluster.known_name,
                "interruptionQueue": interruption_queue,
                # Without internet access there is no price list, because that service has no endpoint in most regions.
                "isolatedVPC": not cluster.network.internet,
                # The same share as in the settings' checks. With its default 0.075, Karpenter would start no node for the
                # largest pods.
                "vmMemoryOverheadPercent": INVISIBLE_MEMORY_SHARE,
            },
            "serviceMonitor": {"enabled": monitored},
            "controller": {
                "env": [{"name": "AWS_REGION", "value": cluster.stack.region}, *pod_identity.environment()],
                "extraVolumeMounts": pod_identity.mounts(),
            },
            "extraVolumes": pod_identity.volumes(),
        },
    )
