"""EKS add-ons that run on nodes, and so come after them (the network plugin comes before: `infra.cluster`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.account import Account
from infra.identity import ServiceAccount, WorkloadRole, WorkloadRoleArgs, pod_identity
from infra.versions import KubernetesPins

_EBS_CSI_ACCOUNT = ServiceAccount("kube-system", "ebs-csi-controller-sa")


@dataclass(frozen=True)
class AddonsArgs:
    account: Account
    cluster_name: pulumi.Output[str]
    cluster_arn: str
    pins: KubernetesPins
    tags: Mapping[str, str]


class Addons(pulumi.ComponentResource):
    """coredns, metrics-server, and the EBS driver with its role through the Pod Identity agent."""

    def __init__(self, name: str, args: AddonsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:addons:Addons", name, None, opts)
        self._name = name
        self._args = args
        self._addon("coredns")
        self._addon("metrics-server")
        agent = self._addon("eks-pod-identity-agent")
        role = WorkloadRole(
            f"{name}-ebs-csi",
            WorkloadRoleArgs(
                description="EBS volumes for pods",
                service_account=_EBS_CSI_ACCOUNT,
                trust=pod_identity(args.cluster_arn, _EBS_CSI_ACCOUNT),
                managed_policy_arns=(args.account.managed_policy("service-role/AmazonEBSCSIDriverPolicy"),),
                tags=args.tags,
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self._addon(
            "aws-ebs-csi-driver",
            identity=aws.eks.AddonPodIdentityAssociationArgs(service_account=_EBS_CSI_ACCOUNT.name, role_arn=role.arn),
            after=(agent,),
        )
        self.register_outputs({})

    def _addon(
        self,
        addon: str,
        *,
        identity: aws.eks.AddonPodIdentityAssociationArgs | None = None,
        after: tuple[pulumi.Resource, ...] = (),
    ) -> aws.eks.Addon:
        return aws.eks.Addon(
            f"{self._name}-{addon}",
            cluster_name=self._args.cluster_name,
            addon_name=addon,
            addon_version=self._args.pins.addons[addon],
            pod_identity_associations=[identity] if identity is not None else None,
            resolve_conflicts_on_create="OVERWRITE",
            resolve_conflicts_on_update="OVERWRITE",
            tags=self._args.tags,
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(after)),
        )
