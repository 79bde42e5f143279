"""What every bucket of this program has: private, encrypted with its own key, TLS only."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
import pulumi_aws as aws

from spec.iam_policy import Statement

_SSE = "s3:x-amz-server-side-encryption"
_SSE_KEY = "s3:x-amz-server-side-encryption-aws-kms-key-id"


def make_private(
    name: str, bucket: aws.s3.Bucket, key_arn: pulumi.Input[str], opts: pulumi.ResourceOptions
) -> aws.s3.BucketPublicAccessBlock:
    """No ACLs, no public access, encrypted by default. Returns what a bucket policy has to wait for.

    Two changes of a bucket's access at once make S3 answer 409 OperationAborted.
    """
    aws.s3.BucketOwnershipControls(
        f"{name}-ownership",
        bucket=bucket.id,
        rule={"object_ownership": "BucketOwnerEnforced"},
        opts=opts,
    )
    aws.s3.BucketServerSideEncryptionConfiguration(
        f"{name}-default-encryption",
        bucket=bucket.id,
        rules=[
            {
                "apply_server_side_encryption_by_default": {
                    "sse_algorithm": "aws:kms",
                    "kms_master_key_id": key_arn,
                },
                "bucket_key_enabled": True,
            }
        ],
        opts=opts,
    )
    return aws.s3.BucketPublicAccessBlock(
        f"{name}-public-access",
        bucket=bucket.id,
        block_public_acls=True,
        block_public_policy=True,
        ignore_public_acls=True,
        restrict_public_buckets=True,
        opts=opts,
    )


def refusals(bucket_arn: str, key_arn: str) -> list[Statement]:
    """What nobody may do, whatever else they may."""
    objects = f"{bucket_arn}/*"
    return [
        # A Deny has to name every action, or the plain-HTTP request that it forgot gets through.
        deny("TlsOnly", "s3:*", [bucket_arn, objects], {"Bool": {"aws:SecureTransport": "false"}}),
        # A put without any header takes the bucket's default, which is the right key; the Null conditions are what
        # lets it through, because a negated comparison with an absent header is true.
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
        # Asking for aws:kms without naming a key gets the one that AWS manages, not the bucket's default.
        deny(
            "NoUnnamedKey",
            "s3:PutObject",
            [objects],
            {"Null": {_SSE_KEY: "true"}, "StringEquals": {_SSE: "aws:kms"}},
        ),
    ]


def deny(sid: str, action: str, resources: list[str], condition: Mapping[str, object]) -> Statement:
    """A Deny statement of a bucket policy, for everybody."""
    return {
        "Sid": sid,
        "Effect": "Deny",
        "Principal": "*",
        "Action": action,
        "Resource": resources,
        "Condition": condition,
    }
