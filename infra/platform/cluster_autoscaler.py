"""cluster-autoscaler: moves the desired size of the managed node groups (never beside Karpenter).

It finds the groups by the tags that EKS itself puts on the Auto Scaling groups of managed node groups, and pictures a node
of an empty one by the template tags of `infra.aws.nodes`. Without `autoDiscovery` the chart renders no Deployment and says
nothing (docs/facts/charts.md#cluster-autoscaler).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra.aws.account import Account
from infra.aws.identity import OidcProvider, WorkloadRole, WorkloadRoleArgs, irsa_annotations, irsa_trust
from infra.platform import charts
from infra.platform.third_party import release
from spec.iam_policy import allow, document
from spec.names import CLUSTER_AUTOSCALER as CONTROLLER
from spec.versions import CLUSTER_AUTOSCALER, CLUSTER_AUTOSCALER_IMAGES


@dataclass(frozen=True)
class ClusterAutoscalerArgs:
    account: Account
    kubernetes: k8s.Provider
    oidc: OidcProvider
    cluster_name: str
    kubernetes_version: str
    monitored: bool
    tags: Mapping[str, str]


class ClusterAutoscaler(pulumi.ComponentResource):
    """The pinned chart with the image of the cluster's minor version, and its role.

    Give `opts.depends_on` the system nodes.
    """

    def __init__(self, name: str, args: ClusterAutoscalerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:platform:ClusterAutoscaler", name, None, opts)
        role = WorkloadRole(
            f"{name}-controller",
            WorkloadRoleArgs(
                description=f"cluster-autoscaler of {args.cluster_name}",
                service_account=CONTROLLER,
                trust=irsa_trust(args.oidc, CONTROLLER),
                policy=autoscaler_policy(args.account, args.cluster_name),
                tags=args.tags,
            ),
            pulumi.ResourceOptions(parent=self),
        )
        release(
            f"{name}-release",
            CLUSTER_AUTOSCALER,
            CONTROLLER.namespace,
            values(args, role.arn),
            pulumi.ResourceOptions(parent=self, provider=args.kubernetes),
        )
        self.register_outputs({})


def autoscaler_policy(account: Account, cluster_name: str) -> str:
    """Look at everything, change the groups of this cluster: those that carry the tag that EKS puts on them."""
    return document(
        allow(
            [
                "autoscaling:DescribeAutoScalingGroups",
                "autoscaling:DescribeAutoScalingInstances",
                "autoscaling:DescribeLaunchConfigurations",
                "autoscaling:DescribeScalingActivities",
                "autoscaling:DescribeTags",
                "ec2:DescribeImages",
                "ec2:DescribeInstanceTypes",
                "ec2:DescribeLaunchTemplateVersions",
                "ec2:GetInstanceTypesFromInstanceRequirements",
            ],
            ["*"],
            sid="LookAround",
        ),
        allow(["eks:DescribeNodegroup"], [account.arn("eks", f"nodegroup/{cluster_name}/*")], sid="ReadNodeGroups"),
        allow(
            ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"],
            [account.arn("autoscaling", "autoScalingGroup:*:autoScalingGroupName/*")],
            sid="ResizeOwnGroups",
            condition={"StringEquals": {f"aws:ResourceTag/k8s.io/cluster-autoscaler/{cluster_name}": "owned"}},
        ),
    )


def values(args: ClusterAutoscalerArgs, role_arn: pulumi.Input[str]) -> dict[str, Any]:
    """The chart's values: `helm-values/cluster-autoscaler/base.yaml` and what follows from the stack."""
    computed: dict[str, Any] = {
        "autoDiscovery": {"clusterName": args.cluster_name},
        "awsRegion": args.account.region,
        "image": {"tag": CLUSTER_AUTOSCALER_IMAGES[args.kubernetes_version]},
        "rbac": {
            "serviceAccount": {
                "annotations": irsa_annotations(role_arn),
            }
        },
        "serviceMonitor": {"enabled": args.monitored},
    }
    return charts.merge(charts.base_values(CLUSTER_AUTOSCALER.name), computed)
