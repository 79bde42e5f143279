"""The bucket of the asynchronous path: inputs that are too large for a message, results, and why messages failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.aws.private_bucket import deny, make_private, refusals
from spec.iam_policy import Statement, document
from spec.names import FAILURES_PREFIX, INPUTS_PREFIX, RESULTS_PREFIX

_UNFINISHED_UPLOAD_DAYS = 1


@dataclass(frozen=True)
class RequestBucketArgs:
    bucket_name: str
    """See `spec.names.request_bucket`."""
    key_arn: pulumi.Input[str]
    days: int
    """How long inputs, results and failures are kept."""
    disposable: bool
    """`pulumi destroy` empties the bucket first."""
    tags: Mapping[str, str]


class RequestBucket(pulumi.ComponentResource):
    """A private, encrypted bucket in which a result cannot be written over and everything goes after a while.

    It is not versioned: nothing in it changes, and what is old can be asked for again.
    """

    arn: pulumi.Output[str]

    def __init__(self, name: str, args: RequestBucketArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:storage:RequestBucket", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        bucket = aws.s3.Bucket(
            f"{name}-bucket",
            bucket=args.bucket_name,
            force_destroy=args.disposable,
            tags={**args.tags, "Name": args.bucket_name},
            opts=child,
        )
        public_access = make_private(name, bucket, args.key_arn, child)
        aws.s3.BucketLifecycleConfiguration(
            f"{name}-lifecycle", bucket=bucket.id, rules=_lifecycle_rules(args.days), opts=child
        )
        aws.s3.BucketPolicy(
            f"{name}-policy",
            bucket=bucket.id,
            policy=pulumi.Output.all(bucket.arn, args.key_arn).apply(
                lambda arns: document(*refusals(bucket_arn=arns[0], key_arn=arns[1]), results_are_written_once(arns[0]))
            ),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[public_access]),
        )
        self.arn = bucket.arn
        self.register_outputs({"arn": self.arn})


def results_are_written_once(bucket_arn: str) -> Statement:
    """Who writes a result has to ask S3 to refuse where there is one (If-None-Match: *).

    The parts of a multipart upload carry no such header; its completion does.
    """
    return deny(
        "ResultsAreWrittenOnce",
        "s3:PutObject",
        [f"{bucket_arn}/{RESULTS_PREFIX}*"],
        {"Null": {"s3:if-none-match": "true"}, "Bool": {"s3:ObjectCreationOperation": "true"}},
    )


def _lifecycle_rules(days: int) -> list[aws.s3.BucketLifecycleConfigurationRuleArgs]:
    rule, filter_ = aws.s3.BucketLifecycleConfigurationRuleArgs, aws.s3.BucketLifecycleConfigurationRuleFilterArgs
    abort = aws.s3.BucketLifecycleConfigurationRuleAbortIncompleteMultipartUploadArgs
    return [
        rule(
            id="unfinished-uploads",
            status="Enabled",
            filter=filter_(prefix=""),
            abort_incomplete_multipart_upload=abort(days_after_initiation=_UNFINISHED_UPLOAD_DAYS),
        ),
        *(
            rule(
                id=prefix.rstrip("/"),
                status="Enabled",
                filter=filter_(prefix=prefix),
                expiration=aws.s3.BucketLifecycleConfigurationRuleExpirationArgs(days=days),
            )
            for prefix in (INPUTS_PREFIX, RESULTS_PREFIX, FAILURES_PREFIX)
        ),
    ]
