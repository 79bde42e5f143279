"""The bucket of asynchronous requests: inputs too large for a message, results, and reasons of failures."""

from __future__ import annotations

import pulumi

from infra.aws.private_bucket import PrivateBucketArgs, abort_unfinished_uploads, expire, private_bucket, written_once
from infra.aws.stack import Stack
from spec.names import FAILURES_PREFIX, INPUTS_PREFIX, RESULTS_PREFIX

_UNFINISHED_UPLOAD_DAYS = 1


class RequestBucket(pulumi.ComponentResource):
    """A private, encrypted bucket. Results cannot be overwritten, and all objects are deleted after `days`.

    It is not versioned, because its objects do not change and an old request can be sent again.
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
