"""The bucket of the platform's Pulumi state, and the key of the secrets in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.aws.account import Account
from infra.aws.keys import EncryptionKey, EncryptionKeyArgs
from infra.aws.private_bucket import PrivateBucketArgs, abort_unfinished_uploads, expire, private_bucket
from spec.iam_policy import Statement
from spec.names import SECRETS_ALIAS, state_bucket, state_log_bucket

_OLD_STATE_DAYS = 365
"""How many days an overwritten or deleted state can be restored."""
_UNFINISHED_UPLOAD_DAYS = 7
_LOG_DAYS = 365


@dataclass(frozen=True)
class StateArgs:
    account: Account
    tags: Mapping[str, str]


class State(pulumi.ComponentResource):
    """A versioned, private bucket with TLS only, and a key for stacks' secrets. Neither is ever destroyed.

    A second bucket has its access log, which no workflow role can reach. Pulumi locks a stack in the bucket itself
    (`.pulumi/locks/`).
    """

    bucket_name: pulumi.Output[str]
    bucket_arn: pulumi.Output[str]
    bucket_key_arn: pulumi.Output[str]
    secrets_key_arn: pulumi.Output[str]

    def __init__(self, name: str, args: StateArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:bootstrap:State", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        bucket_key = self._key(f"{name}-encryption", "pulumi-state", "Pulumi state", args, child)
        secrets_key = self._key(f"{name}-secrets", SECRETS_ALIAS, "Secrets in Pulumi stacks", args, child)
        bucket = private_bucket(
            name,
            PrivateBucketArgs(
                bucket_name=state_bucket(args.account.id, args.account.region),
                key_arn=bucket_key.arn,
                lifecycle_rules=(
                    abort_unfinished_uploads(_UNFINISHED_UPLOAD_DAYS),
                    expire("old-states", old_version_days=_OLD_STATE_DAYS),
                ),
                tags=args.tags,
                protected=True,
                retained=True,
            ),
            parent=self,
        )
        self._log_accesses(name, bucket, args)
        self.bucket_name, self.bucket_arn = bucket.bucket, bucket.arn
        self.bucket_key_arn, self.secrets_key_arn = bucket_key.arn, secrets_key.arn
        self.register_outputs({"bucketName": self.bucket_name})

    def _log_accesses(self, name: str, bucket: aws.s3.Bucket, args: StateArgs) -> None:
        account = args.account
        source = f"arn:{account.partition}:s3:::{state_bucket(account.id, account.region)}"

        def delivery(log_arn: str) -> list[Statement]:
            condition = {"ArnEquals": {"aws:SourceArn": source}, "StringEquals": {"aws:SourceAccount": account.id}}
            return [
                {
                    "Sid": "DeliverLogs",
                    "Effect": "Allow",
                    "Principal": {"Service": "logging.s3.amazonaws.com"},
                    "Action": "s3:PutObject",
                    "Resource": f"{log_arn}/*",
                    "Condition": condition,
                }
            ]

        # A component, so delivery waits for all its resources: S3 refuses a target whose policy does not allow it to write.
        guarded = pulumi.ComponentResource(
            "triton:bootstrap:StateLog", f"{name}-log", None, pulumi.ResourceOptions(parent=self)
        )
        log = private_bucket(
            f"{name}-log",
            PrivateBucketArgs(
                bucket_name=state_log_bucket(account.id, account.region),
                key_arn=None,
                lifecycle_rules=(expire("old-logs", days=_LOG_DAYS),),
                tags=args.tags,
                versioned=False,
                protected=True,
                retained=True,
                more=delivery,
            ),
            parent=guarded,
        )
        guarded.register_outputs({})
        aws.s3.BucketLogging(
            f"{name}-access-log",
            bucket=bucket.id,
            target_bucket=log.id,
            target_prefix="",
            target_object_key_format={"partitioned_prefix": {"partition_date_source": "EventTime"}},
            opts=pulumi.ResourceOptions(parent=self, retain_on_delete=True, depends_on=[guarded]),
        )

    @staticmethod
    def _key(name: str, alias: str, description: str, args: StateArgs, opts: pulumi.ResourceOptions) -> EncryptionKey:
        made = EncryptionKeyArgs(
            account=args.account, alias=alias, description=description, tags=args.tags, protected=True, retained=True
        )
        return EncryptionKey(name, made, opts=opts)
