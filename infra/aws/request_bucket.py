"""The bucket of the asynchronous path: inputs that are too large for a message, results, and why messages failed."""

from __future__ import annotations

import pulumi

from infra.aws.private_bucket import PrivateBucketArgs, abort_unfinished_uploads, deny, expire, private_bucket
from infra.aws.stack import Stack
from spec.iam_policy import Statement
from spec.names import FAILURES_PREFIX, INPUTS_PREFIX, RESULTS_PREFIX

_UNFINISHED_UPLOAD_DAYS = 1


class RequestBucket(pulumi.ComponentResource):
    """A private, encrypted bucket in which a result cannot be written over and everything goes after `days`.

    It is not versioned: nothing in it changes, and what is old can be asked for again.
    """

    arn: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        stack: Stack,
        *,
        key_arn: pulumi.Input[str],
        days: int,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("triton:storage:RequestBucket", name, None, opts)
        bucket = private_bucket(
            name,
            PrivateBucketArgs(
                bucket_name=stack.request_bucket,
                key_arn=key_arn,
                lifecycle_rules=(
                    abort_unfinished_uploads(_UNFINISHED_UPLOAD_DAYS),
                    *(
                        expire(prefix.rstrip("/"), prefix=prefix, days=days)
                        for prefix in (INPUTS_PREFIX, RESULTS_PREFIX, FAILURES_PREFIX)
                    ),
                ),
                tags=stack.tags,
                versioned=False,
                disposable=stack.disposable,
                more=lambda bucket_arn: [results_are_written_once(bucket_arn)],
            ),
            parent=self,
        )
        self.arn = bucket.arn
        self.register_outputs({"arn": self.arn})


def results_are_written_once(bucket_arn: str) -> Statement:
    """Return the statement by which whoever writes a result has to ask S3 to refuse where there is one (If-None-Match: *).

    The parts of a multipart upload carry no such header; its completion does.
    """
    return deny(
        "ResultsAreWrittenOnce",
        "s3:PutObject",
        [f"{bucket_arn}/{RESULTS_PREFIX}*"],
        {"Null": {"s3:if-none-match": "true"}, "Bool": {"s3:ObjectCreationOperation": "true"}},
    )
