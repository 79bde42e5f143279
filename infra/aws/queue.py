"""The request queue of the asynchronous path, what becomes of poison, and who is told."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.aws.account import Account
from infra.aws.keys import EncryptionKey, EncryptionKeyArgs
from infra.aws.request_bucket import RequestBucket, RequestBucketArgs
from spec.iam_policy import Statement, document

POLL_SECONDS = 20
"""A worker's long poll, the longest that SQS has: fewer empty receives."""
BATCH = 10
"""Messages that one receive may bring."""
_CLOSING_SECONDS = 10
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
    """See `queue_name`."""
    bucket_name: str
    """See `request_bucket.request_bucket_name`."""
    visibility_timeout_seconds: int
    """See `visibility_timeout`."""
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


def queue_name(cluster_name: str) -> str:
    """The queue's name: chosen here because producers, workers and the autoscaler address it before it exists."""
    return f"{cluster_name}-requests"


def queue_url(account: Account, name: str) -> str:
    """The URL that a queue of this name has."""
    suffix = "amazonaws.com.cn" if account.partition == "aws-cn" else "amazonaws.com"
    return f"https://sqs.{account.region}.{suffix}/{account.id}/{name}"


def grace_seconds(longest_request_seconds: int) -> int:
    """From SIGTERM to the end of a worker: `poll + longest request + closing`.

    The poll that is under way is waited for (20 s: messages may be on their way to it), requests at Triton are finished,
    and the rest is given back.
    """
    return POLL_SECONDS + longest_request_seconds + _CLOSING_SECONDS


def visibility_timeout(longest_request_seconds: int, concurrency: int) -> int:
    """Seconds in which nobody else gets a message that a worker has: `wait + longest request + grace`.

    `wait = longest request * ceil(10 / concurrency)`: a worker may have a batch of ten in hand that waits for places at
    Triton. `longest request` has Triton's queue and the inference in it. `grace` is the end of a worker (`grace_seconds`).
    A worker extends it from half of it on, so that this is what a message waits for after a worker was killed, and never
    what limits the work (docs/facts/scaling.md#visibility-of-a-message).
    """
    wait = longest_request_seconds * math.ceil(BATCH / concurrency)
    return wait + longest_request_seconds + grace_seconds(longest_request_seconds)


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
