"""Cases of policies about buckets and images."""

import json
from typing import Any

from tests.policies.case import ABSENT, Case, fail, made
from triton_policies.storage import (
    BUCKET,
    BUCKET_POLICY,
    ENCRYPTION,
    LIFECYCLE,
    OWNERSHIP,
    PUBLIC_ACCESS,
    REPOSITORY,
    VERSIONING,
)

_TLS = {
    "Effect": "Deny",
    "Principal": "*",
    "Action": "s3:*",
    "Resource": ["arn:aws:s3:::b", "arn:aws:s3:::b/*"],
    "Condition": {"Bool": {"aws:SecureTransport": "false"}},
}
_PUBLIC = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/*"}


def _document(*statements: Any) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


CASES = (
    Case(
        policy="s3-public-access-blocked",
        type=PUBLIC_ACCESS,
        passes={"blockPublicAcls": True, "blockPublicPolicy": True, "ignorePublicAcls": True, "restrictPublicBuckets": True},
        fails=(
            fail(
                {"blockPublicAcls": False},
                ("it: blockPublicAcls: is false: the bucket can be made public. Fix: set all four switches to true"),
            ),
            fail(
                {"blockPublicPolicy": ABSENT, "ignorePublicAcls": False, "restrictPublicBuckets": False},
                ("it: blockPublicPolicy: is not set: the bucket can be made public. Fix: set all four switches to true"),
                ("it: ignorePublicAcls: is false: the bucket can be made public. Fix: set all four switches to true"),
                ("it: restrictPublicBuckets: is false: the bucket can be made public. Fix: set all four switches to true"),
            ),
        ),
        unknown="blockPublicPolicy",
    ),
    Case(
        policy="s3-kms-encrypted",
        type=ENCRYPTION,
        passes={"rules": [{"applyServerSideEncryptionByDefault": {"sseAlgorithm": "aws:kms", "kmsMasterKeyId": "arn"}}]},
        fails=(
            fail(
                {"rules": []},
                (
                    "it: rules: is not set: objects are encrypted with a key that is not yours. "
                    "Fix: set sseAlgorithm to aws:kms and kmsMasterKeyId to your key"
                ),
            ),
            fail(
                {"rules[0].applyServerSideEncryptionByDefault.sseAlgorithm": "AES256"},
                (
                    "it: rules[0].applyServerSideEncryptionByDefault.sseAlgorithm: is AES256: who may read is not "
                    "decided by a key of yours. "
                    "Fix: set sseAlgorithm to aws:kms and kmsMasterKeyId to your key"
                ),
            ),
            fail(
                {"rules[0].applyServerSideEncryptionByDefault.kmsMasterKeyId": ABSENT},
                (
                    "it: rules[0].applyServerSideEncryptionByDefault.kmsMasterKeyId: is not set: AWS's key is used, "
                    "whose policy you cannot change. "
                    "Fix: set sseAlgorithm to aws:kms and kmsMasterKeyId to your key"
                ),
            ),
        ),
        unknown="rules",
    ),
    Case(
        policy="s3-customer-keys-blocked",
        type=ENCRYPTION,
        passes={"rules": [{"blockedEncryptionTypes": ["SSE-C"]}]},
        fails=(
            fail(
                {"rules": []},
                (
                    "it: rules: is not set: clients can upload objects with keys of their own. "
                    "Fix: set blockedEncryptionTypes to SSE-C"
                ),
            ),
            fail(
                {"rules[0].blockedEncryptionTypes": ["NONE"]},
                (
                    "it: rules[0].blockedEncryptionTypes: is NONE: clients can upload objects with keys of their own. "
                    "Fix: set blockedEncryptionTypes to SSE-C"
                ),
            ),
            fail(
                {"rules[0].blockedEncryptionTypes": ABSENT},
                (
                    "it: rules[0].blockedEncryptionTypes: is not set: clients can upload objects with keys of their own. "
                    "Fix: set blockedEncryptionTypes to SSE-C"
                ),
            ),
        ),
        unknown="rules[0].blockedEncryptionTypes",
    ),
    Case(
        policy="s3-tls-only",
        type=BUCKET_POLICY,
        passes={"policy": _document(_TLS)},
        fails=(
            fail(
                {"policy": _document({**_TLS, "Resource": "arn:aws:s3:::b/*"})},
                (
                    "it: policy: has no statement that denies s3:* to everybody, on the bucket and its objects, "
                    "when aws:SecureTransport is false. "
                    "Fix: add the statement to the bucket's policy"
                ),
            ),
            fail(
                {"policy": _document({**_TLS, "Effect": "Allow"})},
                (
                    "it: policy: has no statement that denies s3:* to everybody, on the bucket and its objects, "
                    "when aws:SecureTransport is false. "
                    "Fix: add the statement to the bucket's policy"
                ),
                "it: policy.Statement[0].Principal: is *: anyone on the internet may use the bucket. Fix: name who may",
            ),
            fail(
                {"policy": _document({**_TLS, "Condition": {"Bool": {"aws:SecureTransport": "true"}}})},
                (
                    "it: policy: has no statement that denies s3:* to everybody, on the bucket and its objects, "
                    "when aws:SecureTransport is false. "
                    "Fix: add the statement to the bucket's policy"
                ),
            ),
            fail(
                {"policy": _document(_TLS, _PUBLIC)},
                ("it: policy.Statement[1].Principal: is *: anyone on the internet may use the bucket. Fix: name who may"),
            ),
            fail(
                {"policy": "{}"},
                (
                    "it: policy: has no statement that denies s3:* to everybody, on the bucket and its objects, "
                    "when aws:SecureTransport is false. "
                    "Fix: add the statement to the bucket's policy"
                ),
            ),
        ),
        unknown="policy",
    ),
    Case(
        policy="s3-no-acls",
        type=OWNERSHIP,
        passes={"rule": {"objectOwnership": "BucketOwnerEnforced"}},
        fails=(
            fail(
                {"rule.objectOwnership": "ObjectWriter"},
                (
                    "it: rule.objectOwnership: is ObjectWriter: ACLs decide beside policies, and objects may belong "
                    "to others. "
                    "Fix: set rule.objectOwnership to BucketOwnerEnforced"
                ),
            ),
        ),
        unknown="rule.objectOwnership",
    ),
    Case(
        policy="s3-locked-down",
        type="",
        passes=(
            made(BUCKET, "models", {"bucket": "triton-models-prod-1"}),
            made(PUBLIC_ACCESS, "access", bucket="models"),
            made(ENCRYPTION, "key", bucket="models"),
            made(OWNERSHIP, "ownership", bucket="models"),
            made(BUCKET_POLICY, "policy", bucket="models"),
            made(VERSIONING, "versions", {"versioningConfiguration": {"status": "Enabled"}}, bucket="models"),
        ),
        fails=(
            fail(
                {"access": ABSENT},
                (
                    "models: has no public access block: one wrong ACL or policy makes it public. "
                    "Fix: make the missing resource for the bucket"
                ),
            ),
            fail(
                {"key": ABSENT},
                ("models: has no default encryption with your own key. Fix: make the missing resource for the bucket"),
            ),
            fail(
                {"ownership": ABSENT},
                (
                    "models: has no ownership controls: objects may belong to other accounts. "
                    "Fix: make the missing resource for the bucket"
                ),
            ),
            fail(
                {"policy": ABSENT},
                ("models: has no policy: requests without TLS are answered. Fix: make the missing resource for the bucket"),
            ),
            fail(
                {"versions": ABSENT},
                (
                    "models: has no versioning: what is overwritten or deleted is gone. "
                    "Fix: make the missing resource for the bucket"
                ),
            ),
            fail(
                {"versions": {"versioningConfiguration.status": "Suspended"}},
                (
                    "versions: versioningConfiguration.status: is Suspended: what is overwritten or deleted is "
                    "gone. "
                    "Fix: set it to Enabled"
                ),
            ),
            # One bucket's protection does not cover another bucket.
            fail(
                {"other": made(BUCKET, "other", {"bucket": "triton-requests-prod-1"})},
                (
                    "other: has no public access block: one wrong ACL or policy makes it public. "
                    "Fix: make the missing resource for the bucket"
                ),
                ("other: has no default encryption with your own key. Fix: make the missing resource for the bucket"),
                (
                    "other: has no ownership controls: objects may belong to other accounts. "
                    "Fix: make the missing resource for the bucket"
                ),
                ("other: has no policy: requests without TLS are answered. Fix: make the missing resource for the bucket"),
            ),
        ),
        unknown=("versions", "versioningConfiguration.status"),
    ),
    Case(
        policy="s3-models-kept",
        type=BUCKET,
        passes={"bucket": "triton-models-prod-1", "forceDestroy": False},
        fails=(
            fail({"forceDestroy": True}, "it: forceDestroy: is true: a destroy empties it first. Fix: set it to false"),
            fail(
                {},
                "it: is not protected: a destroy takes the models along. Fix: give it protect=True",
                options={"protect": False},
            ),
        ),
        unknown="bucket",
        options={"protect": True},
    ),
    Case(
        policy="s3-models-kept",
        type=BUCKET,
        passes={"bucket": "triton-requests-prod-1", "forceDestroy": True},
        fails=(),
        unknown=None,
    ),
    Case(
        policy="ecr-immutable-scanned",
        type=REPOSITORY,
        passes={
            "imageTagMutability": "IMMUTABLE",
            "imageScanningConfiguration": {"scanOnPush": True},
            "encryptionConfigurations": [{"encryptionType": "KMS", "kmsKey": "arn"}],
        },
        fails=(
            fail(
                {"imageTagMutability": "MUTABLE"},
                (
                    "it: imageTagMutability: is MUTABLE: what a tag names can be exchanged. "
                    "Fix: set imageTagMutability IMMUTABLE, imageScanningConfiguration.scanOnPush true, "
                    "encryptionType KMS"
                ),
            ),
            fail(
                {"imageScanningConfiguration": ABSENT},
                (
                    "it: imageScanningConfiguration.scanOnPush: is not set: nobody learns of an image's "
                    "vulnerabilities. "
                    "Fix: set imageTagMutability IMMUTABLE, imageScanningConfiguration.scanOnPush true, "
                    "encryptionType KMS"
                ),
            ),
            fail(
                {"encryptionConfigurations": ABSENT},
                (
                    "it: encryptionConfigurations: has no KMS: images are encrypted with a key that is not yours. "
                    "Fix: set imageTagMutability IMMUTABLE, imageScanningConfiguration.scanOnPush true, "
                    "encryptionType KMS"
                ),
            ),
        ),
        unknown="imageTagMutability",
    ),
    Case(
        policy="ecr-lifecycle",
        type="",
        passes=(made(REPOSITORY, "images", {"name": "worker"}), made(LIFECYCLE, "old", {"repository": "worker"})),
        fails=(
            fail(
                {"old": ABSENT},
                (
                    "images: has no lifecycle policy: images that nobody uses are billed for ever. "
                    "Fix: make an aws.ecr.LifecyclePolicy for it"
                ),
            ),
        ),
        unknown=("old", "repository"),
    ),
)
