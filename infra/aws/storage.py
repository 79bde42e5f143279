"""The bucket that model releases live in, and the key that they are encrypted with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.aws.account import Account
from infra.aws.keys import EncryptionKey, EncryptionKeyArgs
from infra.aws.private_bucket import make_private, refusals
from spec.iam_policy import Statement, document
from spec.names import RELEASES_PREFIX, RETIRED_TAG

_UNFINISHED_UPLOAD_DAYS = 7


@dataclass(frozen=True)
class ModelBucketArgs:
    account: Account
    bucket_name: str
    """See `spec.names.model_bucket`."""
    key_alias: str
    old_release_days: int
    """Days that an overwritten, deleted or retired object can still be brought back."""
    protected: bool
    """Bucket and key can neither be deleted nor replaced (`Settings.protected`)."""
    retained: bool
    """Models outlive the stack: a destroy forgets bucket, key and what guards the bucket, and leaves them."""
    disposable: bool
    """`pulumi destroy` empties the bucket first."""
    tags: Mapping[str, str]
    read_by_fsx: bool = False
    """File systems of FSx for Lustre in this account may be linked to it."""


class ModelBucket(pulumi.ComponentResource):
    """A private, versioned, encrypted bucket that speaks TLS only."""

    name: pulumi.Output[str]
    arn: pulumi.Output[str]
    key_arn: pulumi.Output[str]

    def __init__(self, name: str, args: ModelBucketArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("triton:storage:ModelBucket", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        lasting = pulumi.ResourceOptions(parent=self, protect=args.protected, retain_on_delete=args.retained)
        # A bucket that outlives the stack without them would be open to what they refuse.
        guard = pulumi.ResourceOptions(parent=self, retain_on_delete=args.retained)
        key = EncryptionKey(
            f"{name}-encryption",
            EncryptionKeyArgs(
                account=args.account,
                alias=args.key_alias,
                description=f"Models in {args.bucket_name}",
                tags=args.tags,
                protected=args.protected,
                retained=args.retained,
                statements=(_fsx_may_decrypt(args.account, args.bucket_name),) if args.read_by_fsx else (),
            ),
            opts=child,
        )
        bucket = aws.s3.Bucket(
            f"{name}-bucket",
            bucket=args.bucket_name,
            force_destroy=args.disposable and not args.retained,
            tags={**args.tags, "Name": args.bucket_name},
            opts=lasting,
        )
        public_access = make_private(name, bucket, key.arn, guard)
        versioning = aws.s3.BucketVersioning(
            f"{name}-versioning",
            bucket=bucket.id,
            versioning_configuration={"status": "Enabled"},
            opts=guard,
        )
        aws.s3.BucketLifecycleConfiguration(
            f"{name}-lifecycle",
            bucket=bucket.id,
            rules=_lifecycle_rules(args.old_release_days),
            # AWS refuses rules about noncurrent versions while the bucket is not versioned.
            opts=pulumi.ResourceOptions.merge(guard, pulumi.ResourceOptions(depends_on=[versioning])),
        )
        aws.s3.BucketPolicy(
            f"{name}-policy",
            bucket=bucket.id,
            policy=pulumi.Output.all(bucket.arn, key.arn).apply(
                lambda arns: document(*refusals(bucket_arn=arns[0], key_arn=arns[1]))
            ),
            opts=pulumi.ResourceOptions.merge(guard, pulumi.ResourceOptions(depends_on=[public_access])),
        )
        self.name = bucket.bucket
        self.arn = bucket.arn
        self.key_arn = key.arn
        self.register_outputs({"name": self.name, "arn": self.arn, "keyArn": self.key_arn})


def _fsx_may_decrypt(account: Account, bucket: str) -> Statement:
    """The role by which FSx reads the objects of `bucket` may use the key, through S3 alone.

    FSx makes that role when a file system is linked to a bucket, names it after the file system, and gives it no rights to
    keys (FSx user guide, "Working with server-side encrypted Amazon S3 buckets"). KMS refuses a policy with a principal that
    does not exist yet, so the role is a condition. The context is the bucket because of its bucket key; that of objects
    written without one is the object.
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
                "kms:ViaService": f"s3.{account.region}.amazonaws.com",
            },
            "ArnLike": {"aws:PrincipalArn": f"arn:{account.partition}:iam::{account.id}:role/{roles}"},
            "StringLike": {"kms:EncryptionContext:aws:s3:arn": [arn, f"{arn}/*"]},
        },
    }


def _lifecycle_rules(
    old_release_days: int,
) -> list[aws.s3.BucketLifecycleConfigurationRuleArgs]:
    """Age alone never removes a live model: only old versions, unfinished uploads and what is tagged as retired go.

    S3 counts the days of an expiration from the upload, so an old release goes soon after it was tagged; in a
    versioned bucket it goes by becoming noncurrent, and can be brought back for `old_release_days` more.
    """
    tag_key, tag_value = RETIRED_TAG
    return [
        aws.s3.BucketLifecycleConfigurationRuleArgs(
            id="unfinished-uploads",
            status="Enabled",
            filter=aws.s3.BucketLifecycleConfigurationRuleFilterArgs(prefix=""),
            abort_incomplete_multipart_upload=(
                aws.s3.BucketLifecycleConfigurationRuleAbortIncompleteMultipartUploadArgs(
                    days_after_initiation=_UNFINISHED_UPLOAD_DAYS
                )
            ),
        ),
        aws.s3.BucketLifecycleConfigurationRuleArgs(
            id="old-versions",
            status="Enabled",
            filter=aws.s3.BucketLifecycleConfigurationRuleFilterArgs(prefix=""),
            noncurrent_version_expiration=(
                aws.s3.BucketLifecycleConfigurationRuleNoncurrentVersionExpirationArgs(noncurrent_days=old_release_days)
            ),
            expiration=aws.s3.BucketLifecycleConfigurationRuleExpirationArgs(expired_object_delete_marker=True),
        ),
        aws.s3.BucketLifecycleConfigurationRuleArgs(
            id="retired-releases",
            status="Enabled",
            filter=aws.s3.BucketLifecycleConfigurationRuleFilterArgs(
                and_=aws.s3.BucketLifecycleConfigurationRuleFilterAndArgs(prefix=RELEASES_PREFIX, tags={tag_key: tag_value})
            ),
            expiration=aws.s3.BucketLifecycleConfigurationRuleExpirationArgs(days=old_release_days),
        ),
    ]
