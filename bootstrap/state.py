"""Where Pulumi keeps the platform's state, and the key of the secrets in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.aws.account import Account
from infra.aws.keys import EncryptionKey, EncryptionKeyArgs
from infra.aws.private_bucket import make_private, refusals
from spec.iam_policy import document
from spec.names import state_bucket

_OLD_STATE_DAYS = 365
"""How long a state that was overwritten or deleted can be brought back."""
_UNFINISHED_UPLOAD_DAYS = 7
SECRETS_ALIAS = "pulumi-secrets"


@dataclass(frozen=True)
class StateArgs:
    account: Account
    tags: Mapping[str, str]


class State(pulumi.ComponentResource):
    """A versioned, private bucket that speaks TLS only, and a key for the secrets of stacks; neither is ever destroyed.

    Pulumi locks a stack in the bucket itself (`.pulumi/locks/`).
    """

    bucket_name: pulumi.Output[str]
    bucket_arn: pulumi.Output[str]
    bucket_key_arn: pulumi.Output[str]
    secrets_key_arn: pulumi.Output[str]

    def __init__(self, name: str, args: StateArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:bootstrap:State", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        lasting = pulumi.ResourceOptions(parent=self, protect=True, retain_on_delete=True)
        guard = pulumi.ResourceOptions(parent=self, retain_on_delete=True)
        bucket_key = self._key(f"{name}-encryption", "pulumi-state", "Pulumi state", args, child)
        secrets_key = self._key(f"{name}-secrets", SECRETS_ALIAS, "Secrets in Pulumi stacks", args, child)
        bucket_name = state_bucket(args.account.id, args.account.region)
        bucket = aws.s3.Bucket(
            f"{name}-bucket",
            bucket=bucket_name,
            force_destroy=False,
            tags={**args.tags, "Name": bucket_name},
            opts=lasting,
        )
        public_access = make_private(name, bucket, bucket_key.arn, guard)
        versioning = aws.s3.BucketVersioning(
            f"{name}-versioning", bucket=bucket.id, versioning_configuration={"status": "Enabled"}, opts=guard
        )
        aws.s3.BucketLifecycleConfiguration(
            f"{name}-lifecycle",
            bucket=bucket.id,
            rules=_lifecycle_rules(),
            # AWS refuses rules about noncurrent versions while the bucket is not versioned.
            opts=pulumi.ResourceOptions.merge(guard, pulumi.ResourceOptions(depends_on=[versioning])),
        )
        aws.s3.BucketPolicy(
            f"{name}-policy",
            bucket=bucket.id,
            policy=pulumi.Output.all(bucket.arn, bucket_key.arn).apply(
                lambda arns: document(*refusals(bucket_arn=arns[0], key_arn=arns[1]))
            ),
            opts=pulumi.ResourceOptions.merge(guard, pulumi.ResourceOptions(depends_on=[public_access])),
        )
        self.bucket_name, self.bucket_arn = bucket.bucket, bucket.arn
        self.bucket_key_arn, self.secrets_key_arn = bucket_key.arn, secrets_key.arn
        self.register_outputs({"bucketName": self.bucket_name})

    @staticmethod
    def _key(name: str, alias: str, description: str, args: StateArgs, opts: pulumi.ResourceOptions) -> EncryptionKey:
        made = EncryptionKeyArgs(
            account=args.account, alias=alias, description=description, tags=args.tags, protected=True, retained=True
        )
        return EncryptionKey(name, made, opts=opts)


def _lifecycle_rules() -> list[aws.s3.BucketLifecycleConfigurationRuleArgs]:
    rule, filter_ = aws.s3.BucketLifecycleConfigurationRuleArgs, aws.s3.BucketLifecycleConfigurationRuleFilterArgs
    return [
        rule(
            id="unfinished-uploads",
            status="Enabled",
            filter=filter_(prefix=""),
            abort_incomplete_multipart_upload=aws.s3.BucketLifecycleConfigurationRuleAbortIncompleteMultipartUploadArgs(
                days_after_initiation=_UNFINISHED_UPLOAD_DAYS
            ),
        ),
        rule(
            id="old-states",
            status="Enabled",
            filter=filter_(prefix=""),
            noncurrent_version_expiration=aws.s3.BucketLifecycleConfigurationRuleNoncurrentVersionExpirationArgs(
                noncurrent_days=_OLD_STATE_DAYS
            ),
        ),
    ]
