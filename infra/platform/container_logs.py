"""Container logs: Fluent Bit on each node sends them to a CloudWatch log group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pulumi

from infra.aws.cluster_access import ClusterAccess
from infra.aws.identity import WorkloadRoleArgs
from infra.aws.keys import EncryptionKey
from infra.aws.log_group import log_group
from infra.platform import pod_identity
from infra.platform.installed_chart import InstalledChart, chart_values
from spec.charts import FLUENT_BIT
from spec.iam_policy import allow, document
from spec.names import LOG_SENDER, container_log_group
from spec.settings import Settings


class ContainerLogs(InstalledChart):
    """The log group, the pinned chart, and a role that may only write to this group.

    The EKS add-on amazon-cloudwatch-observability is not used, because its Fluent Bit does not start without the agent of
    Container Insights (docs/facts/charts.md#fluent-bit).
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
        super().__init__("triton:platform:ContainerLogs", name, cluster, opts)
        stack = cluster.stack
        group_name = container_log_group(stack.cluster_name)
        group = log_group(self, name, group_name, stack.tags, retention_days=retention_days, kms_key_arn=kms_key_arn)
        # The pods read files of the node.
        namespace = self._namespace(LOG_SENDER.namespace, "privileged")
        role = self._role(
            f"{name}-sender",
            WorkloadRoleArgs(
                f"Logs of the containers of {stack.cluster_name}",
                LOG_SENDER,
                policy=policy(stack.account.arn("logs", f"log-group:{group_name}")),
            ),
        )
        self._install(FLUENT_BIT, LOG_SENDER.namespace, values(stack.region, group_name), namespace, group, role)
        self.register_outputs({})


def install_container_logs(
    cluster: ClusterAccess, settings: Settings, key: EncryptionKey | None, *, after: Sequence[pulumi.Resource]
) -> None:
    """Send container logs to CloudWatch, encrypted with the key. Do this only if the stack configures it and so has a
    key."""
    if settings.logs is None or key is None:
        return
    ContainerLogs(
        "container-logs",
        cluster,
        retention_days=settings.logs.containers.retention_days,
        kms_key_arn=key.arn,
        opts=pulumi.ResourceOptions(depends_on=list(after)),
    )


def policy(log_group_arn: str) -> str:
    """Return the permission to write to one log group, as JSON text. Only the program may create the group."""
    return document(allow(["logs:CreateLogStream", "logs:PutLogEvents"], [f"{log_group_arn}:*"], sid="WriteLogs"))


def values(region: str, log_group: str) -> dict[str, Any]:
    """Return the chart's values, in addition to helm-values/fluent-bit/base.yaml."""
    return chart_values(
        FLUENT_BIT,
        {
            "serviceAccount": {"create": True, "name": LOG_SENDER.name},
            "env": [
                {"name": "LOG_REGION", "value": region},
                {"name": "LOG_GROUP", "value": log_group},
                *pod_identity.environment(),
            ],
            **pod_identity.extra(),
        },
    )
