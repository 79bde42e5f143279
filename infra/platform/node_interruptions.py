"""Notices of instances that AWS will interrupt, in a queue that Karpenter reads."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pulumi
import pulumi_aws as aws

from infra.aws.queue import tls_only
from infra.aws.stack import Stack
from spec.iam_policy import document
from spec.names import interruption_queue

_RETENTION_SECONDS = 300
"""Older notices are useless: a spot instance has two minutes from its warning."""

EVENTS: Mapping[str, tuple[str, str]] = {
    "health": ("aws.health", "AWS Health Event"),
    "spot": ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
    "rebalance": ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
    "state": ("aws.ec2", "EC2 Instance State-change Notification"),
    "reservation": ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"),
}
"""Rule -> source and detail type of the events that Karpenter 1.14 supports (its CloudFormation reference)."""


class NodeInterruptions(pulumi.ComponentResource):
    """The queue, and a rule of the default event bus for each kind of notice.

    It is encrypted with the key of SQS. For a key of ours, EventBridge would need permission in the key policy, and the
    notices contain only instance ids.
    """

    arn: pulumi.Output[str]
    queue_name: str

    def __init__(self, name: str, stack: Stack, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:platform:NodeInterruptions", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        self.queue_name = interruption_queue(stack.cluster_name)
        queue = aws.sqs.Queue(
            f"{name}-queue",
            name=self.queue_name,
            message_retention_seconds=_RETENTION_SECONDS,
            sqs_managed_sse_enabled=True,
            tags=stack.named(self.queue_name),
            opts=child,
        )
        rules_of_ours = stack.account.arn("events", f"rule/{self.queue_name}-*")
        policy = aws.sqs.QueuePolicy(
            f"{name}-policy",
            queue_url=queue.id,
            policy=queue.arn.apply(lambda arn: queue_policy(arn, rules_of_ours)),
            opts=child,
        )
        for event, (source, detail_type) in EVENTS.items():
            rule = aws.cloudwatch.EventRule(
                f"{name}-{event}",
                name=f"{self.queue_name}-{event}",
                description=f"{detail_type}, for Karpenter of {stack.cluster_name}",
                event_pattern=json.dumps({"source": [source], "detail-type": [detail_type]}, sort_keys=True),
                tags=stack.named(f"{self.queue_name}-{event}"),
                opts=child,
            )
            aws.cloudwatch.EventTarget(
                f"{name}-{event}-target",
                rule=rule.name,
                target_id="karpenter",
                arn=queue.arn,
                opts=pulumi.ResourceOptions(parent=self, depends_on=[policy]),
            )
        self.arn = queue.arn
        self.register_outputs({"arn": self.arn})


def queue_policy(queue_arn: str, rules: str) -> str:
    """Return the policy that lets EventBridge write only for our rules, and requires TLS of all callers."""
    deliver = {
        "Sid": "EventsOfOurRules",
        "Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": queue_arn,
        "Condition": {"ArnLike": {"aws:SourceArn": rules}},  # contains the account
    }
    return document(deliver, tls_only(queue_arn))
