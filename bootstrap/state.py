"""The bucket of Pulumi's state of the platform, and the key of the secrets in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi

from infra.aws.account import Account
from infra.aws.keys import EncryptionKey, EncryptionKeyArgs
from infra.aws.private_bucket import PrivateBucketArgs, abort_unfinished_uploads, expire, private_bucket
from spec.names import SECRETS_ALIAS, state_bucket

_OLD_STATE_DAYS = 365
"""How long a state that was overwritten or deleted can be brought back."""
_UNFINISHED_UPLOAD_DAYS = 7


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
        self.bucket_name, self.bucket_arn = bucket.bucket, bucket.arn
        self.bucket_key_arn, self.secrets_key_arn = bucket_key.arn, secrets_key.arn
        self.register_outputs({"bucketName": self.bucket_name})

    @staticmethod
    def _key(name: str, alias: str, description: str, args: StateArgs, opts: pulumi.ResourceOptions) -> EncryptionKey:
        made = EncryptionKeyArgs(
            account=args.account, alias=alias, description=description, tags=args.tags, protected=True, retained=True
        )
        return EncryptionKey(name, made, opts=opts)
