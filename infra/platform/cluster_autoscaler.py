"""cluster-autoscaler: changes the desired size of the managed node groups (never together with Karpenter).

It finds the groups by the tags that EKS sets on the Auto Scaling groups of managed node groups. It models a node of an empty
group from the template tags of `infra.aws.nodes`. Without `autoDiscovery` the chart renders no Deployment and reports no
error (docs/facts/charts.md#cluster-autoscaler).
"""

from __future__ import annotations

from typing import Any

import pulumi

from infra.aws.account import Account
from infra.aws.cluster_access import ClusterAccess
from infra.aws.identity import WorkloadRoleArgs
from infra.platform import pod_identity
from infra.platform.installed_chart import InstalledChart, chart_values
from spec.charts import CLUSTER_AUTOSCALER
from spec.iam_policy import allow, document
from spec.names import CLUSTER_AUTOSCALER as CLUSTER_AUTOSCALER_ACCOUNT
from spec.versions import CLUSTER_AUTOSCALER_IMAGES


class ClusterAutoscaler(InstalledChart):
    """The pinned chart with the image for the cluster's minor version, and its role.

    `opts.depends_on` has to name the system nodes. `monitored`: the cluster has the kind ServiceMonitor and a Prometheus
    that reads it.
    """

    def __init__(
        self, name: str, cluster: ClusterAccess, *, monitored: bool, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("triton:platform:ClusterAutoscaler", name, cluster, opts)
        stack = cluster.stack
        role = self._role(
            f"{name}-controller",
            WorkloadRoleArgs(
                description=f"cluster-autoscaler of {stack.cluster_name}",
                service_account=CLUSTER_AUTOSCALER_ACCOUNT,
                policy=autoscaler_policy(stack.account, cluster.known_name),
            ),
        )
        chart = values(cluster, monitored=monitored)
        self._install(CLUSTER_AUTOSCALER, CLUSTER_AUTOSCALER_ACCOUNT.namespace, chart, role)
        self.register_outputs({})


def autoscaler_policy(account: Account, cluster_name: str) -> str:
    """Return the permissions to read everything and to change this cluster's groups. EKS sets the tag by which they are
    found."""
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


def values(cluster: ClusterAccess, *, monitored: bool) -> dict[str, Any]:
    """Return the chart's values."""
    return chart_values(
        CLUSTER_AUTOSCALER,
        {
            "autoDiscovery": {"clusterName": cluster.known_name},
            "awsRegion": cluster.stack.region,
            "image": {"tag": CLUSTER_AUTOSCALER_IMAGES[cluster.kubernetes_version]},
            "serviceMonitor": {"enabled": monitored},
            "extraEnv": dict(pod_identity.VARIABLES),
            **pod_identity.extra(),
        },
    )
