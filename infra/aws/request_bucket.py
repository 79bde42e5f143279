"""The bucket of the asynchronous path: inputs that are too large for a message, results, and why messages failed."""

from __future__ import annotations

import pulumi

from infra.aws.private_bucket import PrivateBucketArgs, abort_unfinished_uploads, expire, private_bucket, written_once
from infra.aws.stack import Stack
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
                more=lambda bucket_arn: [written_once("ResultsAreWrittenOnce", bucket_arn, RESULTS_PREFIX)],
            ),
            parent=self,
        )
        self.arn = bucket.arn
        self.register_outputs({"arn": self.arn})
