"""The program's buckets: private, encrypted, TLS only, with lifecycle rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from spec.iam_policy import Statement, document

_SSE = "s3:x-amz-server-side-encryption"
_SSE_KEY = "s3:x-amz-server-side-encryption-aws-kms-key-id"


@dataclass(frozen=True)
class PrivateBucketArgs:
    """Arguments of a bucket. `protected`: it can be neither deleted nor replaced. `disposable`: `pulumi destroy` empties
    it."""

    bucket_name: str
    key_arn: pulumi.Input[str] | None
    """None: S3's own key. Only the bucket for access logs uses it, because S3 cannot deliver logs to a bucket with a KMS
    key."""
    lifecycle_rules: Sequence[aws.s3.BucketLifecycleConfigurationRuleArgs]
    tags: Mapping[str, str]
    versioned: bool = True
    protected: bool = False
    retained: bool = False
    """`pulumi destroy` forgets the bucket and its policies but keeps both; without its policies the bucket would be open."""
    disposable: bool = False
    more: Callable[[str], Sequence[Statement]] = lambda bucket_arn: ()  # noqa: ARG005
    """Additional statements of the bucket's policy, from its ARN."""


def private_bucket(name: str, args: PrivateBucketArgs, parent: pulumi.Resource) -> aws.s3.Bucket:
    """Register a bucket and its protection: no ACLs, no public access, encryption, versions, lifecycle, policy."""
    guard = pulumi.ResourceOptions(parent=parent, retain_on_delete=args.retained)
    bucket = aws.s3.Bucket(
        f"{name}-bucket",
        bucket=args.bucket_name,
        force_destroy=args.disposable and not args.retained,
        tags={**args.tags, "Name": args.bucket_name},
        opts=pulumi.ResourceOptions(parent=parent, protect=args.protected, retain_on_delete=args.retained),
    )
    aws.s3.BucketOwnershipControls(
        f"{name}-ownership",
        bucket=bucket.id,
        rule={"object_ownership": "BucketOwnerEnforced"},
        opts=guard,
    )
    aws.s3.BucketServerSideEncryptionConfiguration(
        f"{name}-default-encryption",
        bucket=bucket.id,
        rules=[
            {
                "apply_server_side_encryption_by_default": (
                    {"sse_algorithm": "AES256"}
                    if args.key_arn is None
                    else {"sse_algorithm": "aws:kms", "kms_master_key_id": args.key_arn}
                ),
                "bucket_key_enabled": args.key_arn is not None,
                # Keys of clients: uploads with SSE-C have no header that `NoOtherEncryption` checks.
                "blocked_encryption_types": ["SSE-C"],
            }
        ],
        opts=guard,
    )
    public_access = aws.s3.BucketPublicAccessBlock(
        f"{name}-public-access",
        bucket=bucket.id,
        block_public_acls=True,
        block_public_policy=True,
        ignore_public_acls=True,
        restrict_public_buckets=True,
        opts=guard,
    )
    versioning: list[pulumi.Resource] = []
    if args.versioned:
        enabled = aws.s3.BucketVersioning(
            f"{name}-versioning", bucket=bucket.id, versioning_configuration={"status": "Enabled"}, opts=guard
        )
        versioning.append(enabled)
    aws.s3.BucketLifecycleConfiguration(
        f"{name}-lifecycle",
        bucket=bucket.id,
        rules=list(args.lifecycle_rules),
        # AWS refuses rules about noncurrent versions while the bucket is not versioned.
        opts=pulumi.ResourceOptions.merge(guard, pulumi.ResourceOptions(depends_on=versioning)),
    )
    aws.s3.BucketPolicy(
        f"{name}-policy",
        bucket=bucket.id,
        policy=pulumi.Output.all(bucket.arn, args.key_arn).apply(
            lambda arns: document(*refusals(bucket_arn=arns[0], key_arn=arns[1]), *args.more(arns[0]))
        ),
        # Concurrent changes of a bucket's access make S3 answer 409 OperationAborted.
        opts=pulumi.ResourceOptions.merge(guard, pulumi.ResourceOptions(depends_on=[public_access])),
    )
    return bucket


def abort_unfinished_uploads(days: int) -> aws.s3.BucketLifecycleConfigurationRuleArgs:
    """Return the rule that removes parts of unfinished uploads, which cost money and appear in no listing."""
    return aws.s3.BucketLifecycleConfigurationRuleArgs(
        id="unfinished-uploads",
        status="Enabled",
        filter=aws.s3.BucketLifecycleConfigurationRuleFilterArgs(prefix=""),
        abort_incomplete_multipart_upload=aws.s3.BucketLifecycleConfigurationRuleAbortIncompleteMultipartUploadArgs(
            days_after_initiation=days
        ),
    )


def expire(
    rule_id: str,
    *,
    prefix: str = "",
    tag: tuple[str, str] | None = None,
    days: int | None = None,
    old_version_days: int | None = None,
    delete_markers: bool = False,
) -> aws.s3.BucketLifecycleConfigurationRuleArgs:
    """Return the rule that deletes objects under `prefix` (and with `tag`).

    They are deleted `days` after their upload or, in a versioned bucket, `old_version_days` after they were overwritten or
    deleted. With `delete_markers`, markers without remaining versions are deleted too; this excludes `days`.
    """
    rule_filter, expiration = None, None
    if tag is None:
        rule_filter = aws.s3.BucketLifecycleConfigurationRuleFilterArgs(prefix=prefix)
    else:
        both = aws.s3.BucketLifecycleConfigurationRuleFilterAndArgs(prefix=prefix, tags=dict([tag]))
        rule_filter = aws.s3.BucketLifecycleConfigurationRuleFilterArgs(and_=both)
    if days is not None or delete_markers:
        expiration = aws.s3.BucketLifecycleConfigurationRuleExpirationArgs(
            days=days, expired_object_delete_marker=True if delete_markers else None
        )
    return aws.s3.BucketLifecycleConfigurationRuleArgs(
        id=rule_id,
        status="Enabled",
        filter=rule_filter,
        noncurrent_version_expiration=(
            aws.s3.BucketLifecycleConfigurationRuleNoncurrentVersionExpirationArgs(noncurrent_days=old_version_days)
            if old_version_days is not None
            else None
        ),
        expiration=expiration,
    )


def refusals(bucket_arn: str, key_arn: str | None) -> list[Statement]:
    """Return the statements that refuse plain HTTP, TLS before 1.2, and encryption without the bucket's key."""
    objects = f"{bucket_arn}/*"
    tls = [
        # A Deny has to cover every action; otherwise plain-HTTP requests for the missing ones are allowed.
        deny("TlsOnly", "s3:*", [bucket_arn, objects], {"Bool": {"aws:SecureTransport": "false"}}),
        deny("NoOldTls", "s3:*", [bucket_arn, objects], {"NumericLessThan": {"s3:TlsVersion": "1.2"}}),
    ]
    if key_arn is None:
        return tls
    return [
        *tls,
        # A put without a header uses the bucket's default, the right key. The Null conditions allow it, because a negated
        # comparison with an absent header is true.
        deny(
            "NoOtherEncryption",
            "s3:PutObject",
            [objects],
            {"Null": {_SSE: "false"}, "StringNotEquals": {_SSE: "aws:kms"}},
        ),
        deny(
            "NoOtherKey",
            "s3:PutObject",
            [objects],
            {"Null": {_SSE_KEY: "false"}, "StringNotEquals": {_SSE_KEY: key_arn}},
        ),
        # A request for aws:kms without a key uses the AWS-managed key, not the bucket's default.
        deny(
            "NoUnnamedKey",
            "s3:PutObject",
            [objects],
            {"Null": {_SSE_KEY: "true"}, "StringEquals": {_SSE: "aws:kms"}},
        ),
    ]


def deny(sid: str, action: str, resources: list[str], condition: Mapping[str, object]) -> Statement:
    """Return a Deny statement of a bucket policy, for all principals."""
    return {
        "Sid": sid,
        "Effect": "Deny",
        "Principal": "*",
        "Action": action,
        "Resource": resources,
        "Condition": condition,
    }


def written_once(sid: str, bucket_arn: str, prefix: str) -> Statement:
    """Return the statement that refuses writes below `prefix` without `If-None-Match: *`, so no object can be replaced.

    The parts of a multipart upload carry no such header; its completion does.
    """
    return deny(
        sid,
        "s3:PutObject",
        [f"{bucket_arn}/{prefix}*"],
        {"Null": {"s3:if-none-match": "true"}, "Bool": {"s3:ObjectCreationOperation": "true"}},
    )
