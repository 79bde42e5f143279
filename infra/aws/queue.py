"""The request queue of the asynchronous path, what becomes of poison, and who is told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.aws.account import Account
from infra.aws.keys import EncryptionKey, EncryptionKeyArgs
from infra.aws.request_bucket import RequestBucket, RequestBucketArgs
from spec.iam_policy import Statement, document
from spec.queue_timing import POLL_SECONDS

_DEAD_RETENTION_DAYS = 14
"""The longest that SQS has. It counts from the message's sending, so that it must not be less than the queue's own."""
_MESSAGE_BYTES = 1_048_576
"""The most that SQS takes; what the provider sets by default is a quarter of it."""
_ALARM_PERIOD_SECONDS = 60
_DAY_SECONDS = 86_400


@dataclass(frozen=True)
class RequestQueueArgs:
    account: Account
    queue_name: str
    """See `spec.names.request_queue`."""
    bucket_name: str
    """See `spec.names.request_bucket`."""
    visibility_timeout_seconds: int
    """See `spec.queue_timing.visibility_timeout`."""
    max_receive_count: int
    """Attempts that a message has before it goes to the dead-letter queue."""
    retention_days: int
    old_message_seconds: int
    """The age of the oldest message at which somebody is told."""
    alarm_topic_arn: str | None
    """The SNS topic that alarms go to; None: they are seen in CloudWatch alone."""
    result_days: int
    protected: bool
    """The key can neither be deleted nor replaced (`Settings.protected`)."""
    disposable: bool
    """`pulumi destroy` empties the bucket first."""
    tags: Mapping[str, str]


class RequestQueue(pulumi.ComponentResource):
    """The queue, its dead-letter queue, their key, the bucket of inputs and results, and two alarms.

    The key is our own rather than SQS's: messages hold what customers send, and who may read them shall be decided by a key
    policy and be seen in CloudTrail. One key is enough for queue, dead letters and bucket, which are the same data.
    """

    arn: pulumi.Output[str]
    url: pulumi.Output[str]
    key_arn: pulumi.Output[str]
    bucket_arn: pulumi.Output[str]

    def __init__(self, name: str, args: RequestQueueArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:queue:RequestQueue", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        key = EncryptionKey(
            f"{name}-encryption",
            EncryptionKeyArgs(
                account=args.account,
                alias=args.queue_name,
                description=f"Requests and results of {args.queue_name}",
                tags=args.tags,
                protected=args.protected,
            ),
            opts=child,
        )
        dead = aws.sqs.Queue(
            f"{name}-dead-letters",
            name=f"{args.queue_name}-dead",
            kms_master_key_id=key.arn,
            max_message_size=_MESSAGE_BYTES,
            message_retention_seconds=_DEAD_RETENTION_DAYS * _DAY_SECONDS,
            tags={**args.tags, "Name": f"{args.queue_name}-dead"},
            opts=child,
        )
        queue = aws.sqs.Queue(
            f"{name}-queue",
            name=args.queue_name,
            kms_master_key_id=key.arn,
            max_message_size=_MESSAGE_BYTES,
            message_retention_seconds=args.retention_days * _DAY_SECONDS,
            receive_wait_time_seconds=POLL_SECONDS,
            visibility_timeout_seconds=args.visibility_timeout_seconds,
            redrive_policy=dead.arn.apply(
                lambda arn: json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": args.max_receive_count})
            ),
            tags={**args.tags, "Name": args.queue_name},
            opts=child,
        )
        aws.sqs.RedriveAllowPolicy(
            f"{name}-redrive-allow",
            queue_url=dead.id,
            redrive_allow_policy=queue.arn.apply(
                lambda arn: json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": [arn]})
            ),
            opts=child,
        )
        for which, one in (("policy", queue), ("dead-letters-policy", dead)):
            aws.sqs.QueuePolicy(
                f"{name}-{which}",
                queue_url=one.id,
                policy=one.arn.apply(lambda arn: document(tls_only(arn))),
                opts=child,
            )
        bucket = RequestBucket(
            f"{name}-results",
            RequestBucketArgs(
                bucket_name=args.bucket_name,
                key_arn=key.arn,
                days=args.result_days,
                disposable=args.disposable,
                tags=args.tags,
            ),
            opts=child,
        )
        _alarms(name, args, child)
        self.arn, self.url, self.key_arn, self.bucket_arn = queue.arn, queue.url, key.arn, bucket.arn
        self.register_outputs({"arn": self.arn, "url": self.url})


def tls_only(queue_arn: str) -> Statement:
    """Nobody talks to the queue in the clear."""
    return {
        "Sid": "TlsOnly",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "sqs:*",
        "Resource": queue_arn,
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }


def _alarms(name: str, args: RequestQueueArgs, opts: pulumi.ResourceOptions) -> None:
    actions = [args.alarm_topic_arn] if args.alarm_topic_arn is not None else []
    dead = f"{args.queue_name}-dead"
    for which, queue, metric, threshold, description in (
        (
            "old-messages",
            args.queue_name,
            "ApproximateAgeOfOldestMessage",
            args.old_message_seconds,
            f"Requests wait longer than {args.old_message_seconds} s in {args.queue_name}: too few workers or servers",
        ),
        (
            "dead-letters",
            dead,
            "ApproximateNumberOfMessagesVisible",
            0,
            f"Requests could not be answered and are in {dead}; why: s3://{args.bucket_name}/failures/<message id>.json "
            "(none for a message that a worker died of)",
        ),
    ):
        aws.cloudwatch.MetricAlarm(
            f"{name}-{which}",
            name=f"{args.queue_name}-{which}",
            alarm_description=description,
            namespace="AWS/SQS",
            metric_name=metric,
            dimensions={"QueueName": queue},
            statistic="Maximum",
            period=_ALARM_PERIOD_SECONDS,
            evaluation_periods=1,
            comparison_operator="GreaterThanThreshold",
            threshold=threshold,
            # SQS sends nothing about a queue that nobody has used for six hours.
            treat_missing_data="notBreaching",
            alarm_actions=actions,
            ok_actions=actions,
            tags={**args.tags, "Name": f"{args.queue_name}-{which}"},
            opts=opts,
        )
