"""EKS add-ons that run on nodes, and so come after them (the network plugin comes before: `infra.aws.cluster`)."""

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
    """Install them in a cluster that the program makes, and return what pods wait for.

    Those of a cluster that was there are its owner's; `stackctl preflight` says which are missing.
    """
    if settings.cluster.existing is not None:
        return list(after)
    return [Addons("addons", cluster, settings.models.access, pulumi.ResourceOptions(depends_on=list(after)))]


class Addons(pulumi.ComponentResource):
    """coredns, metrics-server, the EBS driver with its role through the Pod Identity agent, and what mounts models.

    `access`: how pods read models. Buckets are mounted with the role of the pod, file systems without any.

    The monitoring agent says as conditions of a node what is wrong with it: kernel, network, storage, containers, GPUs. Node
    groups and Karpenter replace a node for them; without the agent they see no more than that it is not Ready.
    """

    def __init__(
        self, name: str, cluster: ClusterAccess, access: ModelAccess, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("triton:addons:Addons", name, None, opts)
        self._name = name
        self._cluster = cluster
        self._addon("coredns")
        self._addon("metrics-server")
        # What asks the GPUs would not land on our GPU nodes: by default it tolerates no taint, and nothing says so.
        self._addon("eks-node-monitoring-agent", configuration={"dcgmAgent": {"tolerations": [gpu_toleration()]}})
        agent = self._addon("eks-pod-identity-agent")
        role = WorkloadRole(
            f"{name}-ebs-csi",
            cluster,
            WorkloadRoleArgs(
                description="EBS volumes for pods",
                service_account=EBS_CSI_CONTROLLER,
                identity="associated",
                # Volumes, snapshots and instances of this cluster only. Karpenter's instances carry the tag that it compares
                # (infra.platform.karpenter_pools); EKS tags those of node groups.
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
            # No role: each pod mounts with its own. GPU nodes have a taint, and without the driver no pod of theirs starts.
            self._addon(MOUNTPOINT, configuration={"node": {"tolerateAllTaints": True}})
        if access == "fsx-lustre":
            # No role: only volumes that the driver makes itself need AWS's API. Its pods tolerate every taint by default.
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
