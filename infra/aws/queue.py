"""The request queue, its dead-letter queue and their alarms."""

from __future__ import annotations

import json

import pulumi
import pulumi_aws as aws

from infra.aws.keys import EncryptionKey, EncryptionKeyArgs
from infra.aws.request_bucket import RequestBucket
from infra.aws.stack import Stack
from spec.iam_policy import Statement, document
from spec.queue_timing import POLL_SECONDS
from spec.settings.worker import QUEUE_RETENTION_DAYS, Worker

_DEAD_RETENTION_DAYS = 14
"""The maximum of SQS. It counts from the sending of a message, so it must not be less than the queue's own retention."""
_MESSAGE_BYTES = 1_048_576
"""The maximum of SQS. The provider's default is a quarter of it."""
_ATTEMPTS = 5
"""The deliveries of a message before SQS moves it to the dead-letter queue."""
_ALARM_PERIOD_SECONDS = 60
_DAY_SECONDS = 86_400


class RequestQueue(pulumi.ComponentResource):
    """The queue, its dead-letter queue, their key, the bucket of inputs and results, and two alarms.

    The key is ours and not SQS's: messages contain customers' data, so a key policy controls who can read them and
    CloudTrail records it. Queue, dead letters and bucket share one key, because they hold the same data.
    """

    arn: pulumi.Output[str]
    url: pulumi.Output[str]
    key_arn: pulumi.Output[str]
    bucket_arn: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        stack: Stack,
        worker: Worker,
        *,
        visibility_timeout_seconds: int,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("triton:queue:RequestQueue", name, None, opts)
        queue_name = stack.request_queue
        child = pulumi.ResourceOptions(parent=self)
        key = EncryptionKey(
            f"{name}-encryption",
            EncryptionKeyArgs(
                account=stack.account,
                alias=queue_name,
                description=f"Requests and results of {queue_name}",
                tags=stack.tags,
                protected=stack.protected,
            ),
            opts=child,
        )
        dead = aws.sqs.Queue(
            f"{name}-dead-letters",
            name=f"{queue_name}-dead",
            kms_master_key_id=key.arn,
            max_message_size=_MESSAGE_BYTES,
            message_retention_seconds=_DEAD_RETENTION_DAYS * _DAY_SECONDS,
            tags=stack.named(f"{queue_name}-dead"),
            opts=child,
        )
        queue = aws.sqs.Queue(
            f"{name}-queue",
            name=queue_name,
            kms_master_key_id=key.arn,
            max_message_size=_MESSAGE_BYTES,
            message_retention_seconds=QUEUE_RETENTION_DAYS * _DAY_SECONDS,
            receive_wait_time_seconds=POLL_SECONDS,
            visibility_timeout_seconds=visibility_timeout_seconds,
            redrive_policy=dead.arn.apply(
                lambda arn: json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": _ATTEMPTS})
            ),
            tags=stack.named(queue_name),
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
        bucket = RequestBucket(f"{name}-results", stack, key_arn=key.arn, days=worker.result_days, opts=child)
        _alarms(name, stack, worker, child)
        self.arn, self.url, self.key_arn, self.bucket_arn = queue.arn, queue.url, key.arn, bucket.arn
        self.register_outputs({"arn": self.arn, "url": self.url})


def tls_only(queue_arn: str) -> Statement:
    """Return the statement that refuses plain HTTP for all principals."""
    return {
        "Sid": "TlsOnly",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "sqs:*",
        "Resource": queue_arn,
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }


def _alarms(name: str, stack: Stack, worker: Worker, opts: pulumi.ResourceOptions) -> None:
    actions = [worker.alarm_topic_arn] if worker.alarm_topic_arn is not None else []
    queue_name, old_seconds = stack.request_queue, worker.old_message_minutes * 60
    dead = f"{queue_name}-dead"
    for which, queue, metric, threshold, description in (
        (
            "old-messages",
            queue_name,
            "ApproximateAgeOfOldestMessage",
            old_seconds,
            f"Requests wait longer than {old_seconds} s in {queue_name}: too few workers or servers",
        ),
        (
            "dead-letters",
            dead,
            "ApproximateNumberOfMessagesVisible",
            0,
            f"Requests could not be answered and are in {dead}; why: s3://{stack.request_bucket}/failures/<message id>.json "
            "(none for a message that a worker died of)",
        ),
    ):
        aws.cloudwatch.MetricAlarm(
            f"{name}-{which}",
            name=f"{queue_name}-{which}",
            alarm_description=description,
            namespace="AWS/SQS",
            metric_name=metric,
            dimensions={"QueueName": queue},
            statistic="Maximum",
            period=_ALARM_PERIOD_SECONDS,
            evaluation_periods=1,
            comparison_operator="GreaterThanThreshold",
            threshold=threshold,
            # SQS sends no metrics for a queue that is unused for six hours.
            treat_missing_data="notBreaching",
            alarm_actions=actions,
            ok_actions=actions,
            tags=stack.named(f"{queue_name}-{which}"),
            opts=opts,
        )
