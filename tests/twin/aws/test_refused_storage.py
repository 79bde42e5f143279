"""Mistakes in buckets and what is set on them that S3 refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.twin.aws.refusals import Refusal, check, ids
from tests.twin.aws.world import BUCKET, World, policy
from twin.aws.base.clients import Clients

BLOCK = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
ENCRYPTION = "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration"
LIFECYCLE = "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration"
OWNERSHIP = "aws:s3/bucketOwnershipControls:BucketOwnershipControls"
BUCKET_POLICY = "aws:s3/bucketPolicy:BucketPolicy"
LOGGING = "aws:s3/bucketLogging:BucketLogging"
VERSIONING = "aws:s3/bucketVersioning:BucketVersioning"


@pytest.fixture(scope="module")
def world(clients: Clients) -> Iterator[World]:
    world = World(clients)
    world.make(BUCKET, "bucket", bucket="models-of-somebody")
    world.make(BLOCK, "block", bucket="models-of-somebody", blockPublicPolicy=True)
    key = {"sseAlgorithm": "aws:kms"}
    world.make(ENCRYPTION, "encryption", bucket="models-of-somebody", rules=[{"applyServerSideEncryptionByDefault": key}])
    yield world


def _policy(**statement: Any) -> dict[str, Any]:
    return {"bucket": "models-of-somebody", "policy": policy(**statement)}


def _rule(**rule: Any) -> dict[str, Any]:
    return {"bucket": "models-of-somebody", "rules": [{"id": "r", "status": "Enabled", "filter": {}, **rule}]}


def _encryption(**default: Any) -> dict[str, Any]:
    return {"bucket": "models-of-somebody", "rules": [{"applyServerSideEncryptionByDefault": default}]}


REFUSALS = [
    Refusal(
        "access logs in a bucket that is encrypted by KMS",
        LOGGING,
        lambda w: {"bucket": "models-of-somebody", "targetBucket": "models-of-somebody", "targetPrefix": ""},
        "access log of models-of-somebody: models-of-somebody is encrypted by KMS, where S3 delivers no log",
    ),
    Refusal(
        "a name with capitals",
        BUCKET,
        lambda w: {"bucket": "Models"},
        "aws:s3/bucket:Bucket: bucket: 'Models': 3-63 of a-z, 0-9, dots and hyphens, not an IP address, no reserved affix",
    ),
    Refusal(
        "a name that is an address",
        BUCKET,
        lambda w: {"bucket": "10.0.0.1"},
        "aws:s3/bucket:Bucket: bucket: '10.0.0.1': 3-63 of a-z, 0-9, dots and hyphens, not an IP address, no reserved affix",
    ),
    Refusal(
        "a bucket that exists",
        BUCKET,
        lambda w: {"bucket": "models-of-somebody"},
        "bucket models-of-somebody already exists",
    ),
    Refusal(
        "a setting of an unknown bucket",
        VERSIONING,
        lambda w: {"bucket": "nowhere", "versioningConfiguration": {"status": "Enabled"}},
        "aws:s3/bucketVersioning:BucketVersioning: bucket nowhere does not exist",
    ),
    Refusal(
        "a versioning status that does not exist",
        VERSIONING,
        lambda w: {"bucket": "models-of-somebody", "versioningConfiguration": {"status": "On"}},
        "aws:s3/bucketVersioning:BucketVersioning: versioningConfiguration.status: "
        "'On' is not one of Enabled, Suspended, Disabled",
    ),
    Refusal(
        "an encryption that does not exist",
        ENCRYPTION,
        lambda w: _encryption(sseAlgorithm="aws:kmss"),
        "PutBucketEncryption: ServerSideEncryptionConfiguration.Rules[0].ApplyServerSideEncryptionByDefault.SSEAlgorithm: "
        "'aws:kmss' is not one of AES256, aws:backup, aws:fsx, aws:kms, aws:kms:dsse",
    ),
    Refusal(
        "an unknown key",
        ENCRYPTION,
        lambda w: _encryption(sseAlgorithm="aws:kms", kmsMasterKeyId="00000000-0000-0000-0000-000000000000"),
        "encryption of bucket models-of-somebody: KMS key 00000000-0000-0000-0000-000000000000 "
        "does not exist or is pending deletion",
    ),
    Refusal(
        "a key with an encryption that has none",
        ENCRYPTION,
        lambda w: _encryption(sseAlgorithm="AES256", kmsMasterKeyId="k"),
        "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration: "
        "rules[0].applyServerSideEncryptionByDefault.kmsMasterKeyId: a key is of no use with 'AES256'",
    ),
    Refusal(
        "an ownership that does not exist",
        OWNERSHIP,
        lambda w: {"bucket": "models-of-somebody", "rule": {"objectOwnership": "Enforced"}},
        "PutBucketOwnershipControls: OwnershipControls.Rules[0].ObjectOwnership: "
        "'Enforced' is not one of BucketOwnerEnforced, BucketOwnerPreferred, ObjectWriter",
    ),
    Refusal(
        "a policy for another bucket",
        BUCKET_POLICY,
        lambda w: _policy(Effect="Deny", Principal="*", Action="s3:*", Resource="arn:aws:s3:::another/*"),
        "bucket policy of models-of-somebody: resource arn:aws:s3:::another/* is not in this bucket",
    ),
    Refusal(
        "a policy that is not JSON",
        BUCKET_POLICY,
        lambda w: {"bucket": "models-of-somebody", "policy": "Deny"},
        "aws:s3/bucketPolicy:BucketPolicy: policy: not a JSON policy document: Expecting value: line 1 column 1 (char 0)",
    ),
    Refusal(
        "a public policy on a bucket that blocks it",
        BUCKET_POLICY,
        lambda w: _policy(
            Effect="Allow", Principal="*", Action="s3:GetObject", Resource="arn:aws:s3:::models-of-somebody/*"
        ),
        "bucket policy of models-of-somebody: it allows access to everyone, and the bucket blocks public policies",
    ),
    Refusal(
        "a lifecycle rule without an action",
        LIFECYCLE,
        lambda w: _rule(),
        "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration: rules[0]: no action; one of "
        "abortIncompleteMultipartUpload, expiration, noncurrentVersionExpiration, noncurrentVersionTransitions, transitions "
        "is required",
    ),
    Refusal(
        "an expiration after no days",
        LIFECYCLE,
        lambda w: _rule(noncurrentVersionExpiration={"noncurrentDays": 0}),
        "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration: "
        "rules[0].noncurrentVersionExpiration.noncurrentDays: 0 is not at least 1 day",
    ),
    Refusal(
        "infrequent access too early",
        LIFECYCLE,
        lambda w: _rule(transitions=[{"days": 7, "storageClass": "STANDARD_IA"}]),
        "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration: "
        "rules[0].transitions[0].days: 7; STANDARD_IA wants at least 30 days",
    ),
    Refusal(
        "a status that does not exist",
        LIFECYCLE,
        lambda w: _rule(status="On", expiration={"days": 3}),
        "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration: rules[0].status: 'On' is not Enabled or Disabled",
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=ids(REFUSALS))
def test_it_is_refused_with_a_sentence(world: World, refusal: Refusal) -> None:
    check(world, refusal)
