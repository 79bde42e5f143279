"""VPC flow logs: records of all connections, encrypted and kept for a limited time."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.aws.log_group import log_group
from infra.aws.role import role
from infra.aws.stack import Stack
from spec.iam_policy import allow, document, service_trust


@dataclass(frozen=True)
class FlowLogsArgs:
    stack: Stack
    vpc_id: pulumi.Input[str]
    log_group_name: str
    retention_days: int
    kms_key_arn: pulumi.Input[str]


class FlowLogs(pulumi.ComponentResource):
    """The logs of all traffic in one VPC, in a separate log group."""

    log_group_name: pulumi.Output[str]

    def __init__(self, name: str, args: FlowLogsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:network:FlowLogs", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        stack, account = args.stack, args.stack.account
        group = log_group(
            self, name, args.log_group_name, stack.tags, retention_days=args.retention_days, kms_key_arn=args.kms_key_arn
        )
        delivery_role = role(
            f"{name}-role",
            stack,
            description="Delivers VPC flow logs to CloudWatch Logs",
            trust=service_trust(
                "vpc-flow-logs.amazonaws.com",
                source_account=account.id,
                source_arn=account.arn("ec2", "vpc-flow-log/*"),
            ),
            tags=stack.tags,
            opts=child,
        )
        group_arn = account.arn("logs", f"log-group:{args.log_group_name}")
        delivery = aws.iam.RolePolicy(
            f"{name}-policy",
            role=delivery_role.name,
            policy=document(
                allow(["logs:CreateLogStream", "logs:PutLogEvents"], [f"{group_arn}:*"]),
                allow(["logs:DescribeLogStreams"], [f"{group_arn}:*"]),
                # This action supports no resources.
                allow(["logs:DescribeLogGroups"], ["*"]),
            ),
            opts=child,
        )
        aws.ec2.FlowLog(
            f"{name}-flow-log",
            vpc_id=args.vpc_id,
            traffic_type="ALL",
            log_destination_type="cloud-watch-logs",
            log_destination=group.arn,
            iam_role_arn=delivery_role.arn,
            max_aggregation_interval=60,
            tags=stack.tags,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[delivery]),
        )
        self.log_group_name = group.name
        self.register_outputs({"logGroupName": self.log_group_name})
