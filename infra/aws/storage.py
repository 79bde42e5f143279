"""The bucket of model releases and its encryption key."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from infra.aws.account import Account
from infra.aws.keys import EncryptionKey, EncryptionKeyArgs
from infra.aws.private_bucket import PrivateBucketArgs, abort_unfinished_uploads, expire, private_bucket, written_once
from infra.aws.stack import Stack
from spec.iam_policy import Statement, allow, document
from spec.names import RELEASES_PREFIX, RETIRED_TAG
from spec.settings.models import Models

_UNFINISHED_UPLOAD_DAYS = 7


class ModelBucket(pulumi.ComponentResource):
    """A private, versioned, encrypted bucket. In prod, `pulumi destroy` forgets the bucket but keeps it.

    No object of a release can be replaced. Age alone never removes a live model: only old versions, unfinished uploads and
    objects with the retired tag are deleted.

    S3 counts the days of an expiration from the upload, so an old release is deleted soon after it was tagged. In a
    versioned bucket, deletion makes it noncurrent, and it can be restored for `old_release_days` more.
    """

    name: pulumi.Output[str]
    arn: pulumi.Output[str]
    key_arn: pulumi.Output[str]

    def __init__(self, name: str, stack: Stack, models: Models, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:storage:ModelBucket", name, None, opts)
        retained = stack.environment == "prod"
        key = EncryptionKey(
            f"{name}-encryption",
            EncryptionKeyArgs(
                account=stack.account,
                alias=f"{stack.cluster_name}-models",
                description=f"Models in {stack.model_bucket}",
                tags=stack.tags,
                protected=stack.protected,
                retained=retained,
                statements=_key_statements(stack, models),
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
        bucket = private_bucket(
            name,
            PrivateBucketArgs(
                bucket_name=stack.model_bucket,
                key_arn=key.arn,
                lifecycle_rules=(
                    abort_unfinished_uploads(_UNFINISHED_UPLOAD_DAYS),
                    expire("old-versions", old_version_days=models.old_release_days, delete_markers=True),
                    expire("retired-releases", prefix=RELEASES_PREFIX, tag=RETIRED_TAG, days=models.old_release_days),
                ),
                tags=stack.tags,
                protected=stack.protected,
                retained=retained,
                disposable=stack.disposable,
                more=lambda bucket_arn: [
                    written_once("ReleasesAreWrittenOnce", bucket_arn, RELEASES_PREFIX),
                    *_others_may_read(stack.account, models.reader_accounts or (), bucket_arn),
                ],
            ),
            parent=self,
        )
        self.name = bucket.bucket
        self.arn = bucket.arn
        self.key_arn = key.arn
        self.register_outputs({"name": self.name, "arn": self.arn, "keyArn": self.key_arn})


def reader_policy(
    account: Account, bucket_arn: pulumi.Input[str], key_arn: pulumi.Input[str], prefixes: tuple[str, ...]
) -> pulumi.Output[str]:
    """Return the permissions to read models: list the bucket, get objects under `prefixes`, decrypt only through S3.

    `s3:ListBucket` has no prefix condition: Triton calls HeadBucket before every existence check, which has no prefix and
    would be denied (docs/facts/triton-s3.md#rights).
    """
    return pulumi.Output.all(bucket_arn, key_arn).apply(
        lambda arns: document(
            allow(["s3:ListBucket"], [arns[0]], sid="FindModels"),
            allow(["s3:GetObject"], [f"{arns[0]}/{prefix}*" for prefix in prefixes], sid="ReadReleases"),
            allow(
                ["kms:Decrypt"],
                [arns[1]],
                sid="DecryptThroughS3",
                condition={"StringEquals": {"kms:ViaService": account.host("s3")}},
            ),
        )
    )


def _key_statements(stack: Stack, models: Models) -> tuple[Statement, ...]:
    found = [_fsx_may_decrypt(stack.account, stack.model_bucket)] if models.fsx is not None else []
    if models.reader_accounts is not None:
        found.append(_others_may_decrypt(stack.account, models.reader_accounts, stack.model_bucket))
    return tuple(found)


def _others_may_read(account: Account, readers: Sequence[str], bucket_arn: str) -> list[Statement]:
    """Allow other accounts to find and read releases. Their own policies decide which of their roles may do so."""
    if not readers:
        return []
    who = {"AWS": [_root(account, reader) for reader in readers]}
    return [
        {**allow(["s3:ListBucket"], [bucket_arn], sid="OtherAccountsFindReleases"), "Principal": who},
        {**allow(["s3:GetObject"], [f"{bucket_arn}/{RELEASES_PREFIX}*"], sid="OtherAccountsReadReleases"), "Principal": who},
    ]


def _others_may_decrypt(account: Account, readers: Sequence[str], bucket: str) -> Statement:
    """Allow other accounts to use the key for this bucket's objects, only through S3; the context is as in
    `_fsx_may_decrypt`."""
    arn = f"arn:{account.partition}:s3:::{bucket}"
    condition = {
        "StringEquals": {"kms:ViaService": account.host("s3")},
        "StringLike": {"kms:EncryptionContext:aws:s3:arn": [arn, f"{arn}/{RELEASES_PREFIX}*"]},
    }
    who = {"AWS": [_root(account, reader) for reader in readers]}
    return {**allow(["kms:Decrypt"], ["*"], sid="OtherAccountsDecryptThroughS3", condition=condition), "Principal": who}


def _root(account: Account, id: str) -> str:
    return f"arn:{account.partition}:iam::{id}:root"


def _fsx_may_decrypt(account: Account, bucket: str) -> Statement:
    """Allow FSx's role for the objects of `bucket` to use the key, only through S3.

    FSx creates that role when a file system is linked to a bucket. It names the role after the file system and gives it no
    permissions for keys (FSx user guide, "Working with server-side encrypted Amazon S3 buckets"). KMS refuses a policy with
    a principal that does not exist yet, so the role is a condition. The encryption context is the bucket, because it has a
    bucket key; for objects written without one it is the object.
    """
    arn = f"arn:{account.partition}:s3:::{bucket}"
    roles = "aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/AWSServiceRoleForFSxS3Access_fs-*"
    return {
        "Sid": "FSxReadsThroughS3",
        "Effect": "Allow",
        "Principal": {"AWS": "*"},
        "Action": ["kms:Decrypt"],
        "Resource": "*",
        "Condition": {
            "StringEquals": {
                "kms:CallerAccount": account.id,
                "kms:ViaService": account.host("s3"),
            },
            "ArnLike": {"aws:PrincipalArn": account.iam_arn(f"role/{roles}")},
            "StringLike": {"kms:EncryptionContext:aws:s3:arn": [arn, f"{arn}/*"]},
        },
    }
