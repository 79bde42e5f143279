"""CloudWatch Container Insights: the EKS add-on that measures nodes, pods and containers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_aws as aws

from infra.aws.cluster_access import ClusterAccess
from infra.aws.identity import WorkloadRole, WorkloadRoleArgs
from infra.aws.keys import EncryptionKey
from infra.aws.log_group import log_group
from spec.iam_policy import allow, document
from spec.names import INSIGHTS_AGENT, insights_log_group
from spec.settings import Settings

ADDON = "amazon-cloudwatch-observability"
CONFIGURATION: dict[str, Any] = {
    # Replaces the add-on's default, which also traces applications.
    "agent": {
        "config": {
            "logs": {
                "metrics_collected": {
                    "kubernetes": {"enhanced_container_insights": True, "accelerated_compute_metrics": False},
                }
            }
        }
    },
    # logs.containers configures these; a second collector would send each line again.
    "containerLogs": {"enabled": False},
    # Monitoring has the GPU exporter, and only one program at a time can read a GPU's counters.
    "dcgmExporter": {"enabled": False},
    "neuronMonitor": {"enabled": False},
}


class ContainerInsights(pulumi.ComponentResource):
    """The add-on, its agent's log group, and a role that may write to the group and do little else.

    The policy CloudWatchAgentServerPolicy is not used, because with it the agent could create log groups without key and
    retention.
    """

    def __init__(
        self,
        name: str,
        cluster: ClusterAccess,
        *,
        retention_days: int,
        kms_key_arn: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("triton:platform:ContainerInsights", name, None, opts)
        stack, child = cluster.stack, pulumi.ResourceOptions(parent=self)
        group_name = insights_log_group(stack.cluster_name)
        group = log_group(self, name, group_name, stack.tags, retention_days=retention_days, kms_key_arn=kms_key_arn)
        role = WorkloadRole(
            f"{name}-agent",
            cluster,
            WorkloadRoleArgs(
                f"Container Insights of {stack.cluster_name}",
                INSIGHTS_AGENT,
                policy=policy(stack.account.arn("logs", f"log-group:{group_name}")),
                identity="associated",
            ),
            opts=child,
        )
        aws.eks.Addon(
            f"{name}-addon",
            cluster_name=cluster.name,
            addon_name=ADDON,
            addon_version=cluster.pins.addons[ADDON],
            configuration_values=json.dumps(CONFIGURATION, sort_keys=True),
            pod_identity_associations=[
                aws.eks.AddonPodIdentityAssociationArgs(service_account=INSIGHTS_AGENT.name, role_arn=role.arn)
            ],
            resolve_conflicts_on_create="OVERWRITE",
            resolve_conflicts_on_update="OVERWRITE",
            tags=stack.tags,
            # If the group did not exist yet, the agent would try to create it.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[group]),
        )
        self.register_outputs({})


def install_container_insights(
    cluster: ClusterAccess, settings: Settings, key: EncryptionKey | None, *, after: Sequence[pulumi.Resource]
) -> None:
    """Install the add-on if the stack configures it. The key of the stack's logs encrypts its events."""
    if settings.logs is None or settings.logs.container_insights is None or key is None:
        return
    ContainerInsights(
        "container-insights",
        cluster,
        retention_days=settings.logs.container_insights.retention_days,
        kms_key_arn=key.arn,
        opts=pulumi.ResourceOptions(depends_on=list(after)),
    )


def policy(log_group_arn: str) -> str:
    """Return the permissions to write events to one log group and to describe nodes' volumes, as JSON text."""
    return document(
        allow(["logs:CreateLogStream", "logs:PutLogEvents"], [f"{log_group_arn}:*"], sid="WriteEvents"),
        allow(["ec2:DescribeTags", "ec2:DescribeVolumes"], ["*"], sid="KnowNodes"),
    )
