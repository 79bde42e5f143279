"""CloudWatch log groups, created here first; otherwise AWS creates them without key and retention and leaves them behind."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
import pulumi_aws as aws


def log_group(
    owner: pulumi.Resource,
    name: str,
    group: str,
    tags: Mapping[str, str],
    *,
    retention_days: int,
    kms_key_arn: pulumi.Input[str],
) -> aws.cloudwatch.LogGroup:
    """Return the log group, encrypted with the key and with this retention, as a child of `owner`."""
    return aws.cloudwatch.LogGroup(
        f"{name}-log-group",
        name=group,
        retention_in_days=retention_days,
        kms_key_id=kms_key_arn,
        tags={**tags, "Name": group},
        opts=pulumi.ResourceOptions(parent=owner),
    )
