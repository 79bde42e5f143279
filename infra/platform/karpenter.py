"""Karpenter: starts a node for the pods that none can hold, and ends it when it is empty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as k8s

from infra.aws.account import Account
from infra.aws.identity import WorkloadRole, WorkloadRoleArgs, pod_identity
from infra.platform import charts
from infra.platform.karpenter_policy import controller_policy
from infra.platform.karpenter_pools import NodeFacts, node_class_spec, node_pool_spec
from infra.platform.node_interruptions import NodeInterruptions, NodeInterruptionsArgs
from infra.platform.third_party import release
from spec.names import KARPENTER as CONTROLLER
from spec.settings.gpu import GpuPool
from spec.versions import KARPENTER, KARPENTER_CRDS


@dataclass(frozen=True)
class KarpenterArgs:
    """`node_role_*`: the role of the cluster's managed nodes, which EKS lets join. `isolated`: no way to the internet."""

    account: Account
    kubernetes: k8s.Provider
    cluster_name: str
    cluster_arn: str
    node_role_name: pulumi.Input[str]
    node_role_arn: pulumi.Input[str]
    security_group_id: pulumi.Input[str]
    subnet_ids: Mapping[str, pulumi.Input[str]]
    ami_release: str
    pools: tuple[GpuPool, ...]
    isolated: bool
    monitored: bool
    tags: Mapping[str, str]


class Karpenter(pulumi.ComponentResource):
    """The two pinned charts (CRDs and controller), what the controller may do and hears, and a NodePool for each GPU pool.

    Give `opts.depends_on` the system nodes and the Pod Identity agent.
    """

    def __init__(self, name: str, args: KarpenterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:platform:Karpenter", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        interruptions = NodeInterruptions(
            f"{name}-interruptions",
            NodeInterruptionsArgs(account=args.account, cluster_name=args.cluster_name, tags=args.tags),
            child,
        )
        identity = self._identity(name, args, interruptions.arn)
        in_cluster = pulumi.ResourceOptions(parent=self, provider=args.kubernetes)
        crds = release(f"{name}-crds", KARPENTER_CRDS, CONTROLLER.namespace, {}, in_cluster)
        controller = release(
            f"{name}-release",
            KARPENTER,
            CONTROLLER.namespace,
            values(args, interruptions.queue_name),
            # A pod that starts before its identity is told of has none until it is started again.
            pulumi.ResourceOptions(parent=self, provider=args.kubernetes, depends_on=[crds, identity, interruptions]),
        )
        self._pools(name, args, controller)
        self.register_outputs({})

    def _identity(self, name: str, args: KarpenterArgs, queue_arn: pulumi.Output[str]) -> pulumi.Resource:
        child = pulumi.ResourceOptions(parent=self)
        role = WorkloadRole(
            f"{name}-controller",
            WorkloadRoleArgs(
                description=f"Karpenter of {args.cluster_name}",
                service_account=CONTROLLER,
                trust=pod_identity(args.cluster_arn, CONTROLLER),
                policy=pulumi.Output.all(args.node_role_arn, queue_arn).apply(
                    lambda known: controller_policy(args.account, args.cluster_name, known[0], known[1])
                ),
                tags=args.tags,
            ),
            child,
        )
        return aws.eks.PodIdentityAssociation(
            f"{name}-identity",
            cluster_name=args.cluster_name,
            namespace=CONTROLLER.namespace,
            service_account=CONTROLLER.name,
            role_arn=role.arn,
            tags=dict(args.tags),
            opts=child,
        )

    def _pools(self, name: str, args: KarpenterArgs, controller: pulumi.Resource) -> None:
        # With the managed nodes' role, for which EKS itself has made the access entry that lets nodes join.
        profile = aws.iam.InstanceProfile(
            f"{name}-nodes",
            role=args.node_role_name,
            tags={**args.tags, "Name": f"{args.cluster_name}-karpenter-nodes"},
            opts=pulumi.ResourceOptions(parent=self),
        )
        facts = NodeFacts(
            cluster_name=args.cluster_name,
            ami_release=args.ami_release,
            instance_profile=profile.name,
            security_group_id=args.security_group_id,
            subnet_ids=args.subnet_ids,
            tags=args.tags,
        )
        options = pulumi.ResourceOptions(parent=self, provider=args.kubernetes, depends_on=[controller])
        for pool in args.pools:
            node_class = k8s.apiextensions.CustomResource(
                f"{name}-class-{pool.name}",
                api_version="karpenter.k8s.aws/v1",
                kind="EC2NodeClass",
                metadata=k8s.meta.v1.ObjectMetaArgs(name=pool.name),
                spec=node_class_spec(pool, facts),
                opts=options,
            )
            k8s.apiextensions.CustomResource(
                f"{name}-pool-{pool.name}",
                api_version="karpenter.sh/v1",
                kind="NodePool",
                metadata=k8s.meta.v1.ObjectMetaArgs(name=pool.name),
                spec=node_pool_spec(pool),
                # It goes first, and its nodes with it: a class that nodes are of cannot be deleted.
                opts=pulumi.ResourceOptions(parent=self, provider=args.kubernetes, depends_on=[node_class]),
            )


def values(args: KarpenterArgs, interruption_queue: str) -> dict[str, Any]:
    """The controller's values: `helm-values/karpenter/base.yaml` and what follows from the stack."""
    computed: dict[str, Any] = {
        "settings": {
            "clusterName": args.cluster_name,
            "interruptionQueue": interruption_queue,
            # No price list then: that service has no endpoint in most regions.
            "isolatedVPC": args.isolated,
        },
        "serviceMonitor": {"enabled": args.monitored},
    }
    return charts.merge(charts.base_values(KARPENTER.name), computed)
