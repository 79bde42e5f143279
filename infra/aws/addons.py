"""EKS add-ons that run on nodes, and so are installed after them (the network plugin is before: `infra.aws.cluster`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import pulumi_aws as aws

from infra.aws.cluster_access import ClusterAccess
from infra.aws.identity import WorkloadRole, WorkloadRoleArgs
from spec.gpu_pool import gpu_toleration
from spec.names import EBS_CSI_CONTROLLER
from spec.settings import Settings
from spec.settings.models import ModelAccess

MOUNTPOINT = "aws-mountpoint-s3-csi-driver"
LUSTRE = "aws-fsx-csi-driver"


def install_addons(cluster: ClusterAccess, settings: Settings, after: Sequence[pulumi.Resource]) -> list[pulumi.Resource]:
    """Install the add-ons in a cluster of the program, and return the resources that pods depend on.

    In an existing cluster its owner installs them; `stackctl preflight` reports missing ones.
    """
    if settings.cluster.existing is not None:
        return list(after)
    return [Addons("addons", cluster, settings.models.access, pulumi.ResourceOptions(depends_on=list(after)))]


class Addons(pulumi.ComponentResource):
    """coredns, metrics-server, the monitoring agent, the EBS driver with its role, and the driver for model mounts.

    `access` is the pods' way to read models. Buckets are mounted with the pod's role, file systems without a role.

    The monitoring agent reports a node's faults as node conditions: kernel, network, storage, containers, GPUs. Node groups
    and Karpenter replace a node because of them; without the agent they only see that it is not Ready.
    """

    def __init__(
        self, name: str, cluster: ClusterAccess, access: ModelAccess, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("triton:addons:Addons", name, None, opts)
        self._name = name
        self._cluster = cluster
        self._addon("coredns")
        self._addon("metrics-server")
        # Without tolerations the GPU agent would silently not run on our GPU nodes, because by default it tolerates no
        # taint.
        self._addon("eks-node-monitoring-agent", configuration={"dcgmAgent": {"tolerations": [gpu_toleration()]}})
        agent = self._addon("eks-pod-identity-agent")
        role = WorkloadRole(
            f"{name}-ebs-csi",
            cluster,
            WorkloadRoleArgs(
                description="EBS volumes for pods",
                service_account=EBS_CSI_CONTROLLER,
                identity="associated",
                # Only volumes, snapshots and instances of this cluster. Karpenter's instances have the tag that the policy
                # checks (infra.platform.karpenter_pools); EKS tags the instances of node groups.
                managed_policy_arns=(cluster.stack.account.managed_policy("AmazonEBSCSIDriverEKSClusterScopedPolicy"),),
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self._addon(
            "aws-ebs-csi-driver",
            identity=aws.eks.AddonPodIdentityAssociationArgs(service_account=EBS_CSI_CONTROLLER.name, role_arn=role.arn),
            after=(agent,),
        )
        if access == "mountpoint":
            # No role: each pod mounts with its own. GPU nodes have a taint, and pods there need the driver to start.
            self._addon(MOUNTPOINT, configuration={"node": {"tolerateAllTaints": True}})
        if access == "fsx-lustre":
            # No role: the driver needs AWS's API only for volumes that it creates. Its pods tolerate every taint by default.
            self._addon(LUSTRE)
        self.register_outputs({})

    def _addon(
        self,
        addon: str,
        *,
        identity: aws.eks.AddonPodIdentityAssociationArgs | None = None,
        configuration: Mapping[str, Any] | None = None,
        after: tuple[pulumi.Resource, ...] = (),
    ) -> aws.eks.Addon:
        return aws.eks.Addon(
            f"{self._name}-{addon}",
            cluster_name=self._cluster.name,
            addon_name=addon,
            addon_version=self._cluster.pins.addons[addon],
            configuration_values=None if configuration is None else json.dumps(configuration, sort_keys=True),
            pod_identity_associations=[identity] if identity is not None else None,
            resolve_conflicts_on_create="OVERWRITE",
            resolve_conflicts_on_update="OVERWRITE",
            tags=self._cluster.stack.tags,
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(after)),
        )
