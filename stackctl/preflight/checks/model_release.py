"""Check that the bucket has the stack's pinned model release, with a signature if required."""

from __future__ import annotations

from collections.abc import Iterator

from spec.names import RELEASE_MANIFEST, RELEASE_SIGNATURE, RELEASES_PREFIX, model_bucket
from spec.release_signature import SignatureError, verify
from stackctl.account.read_only import NO_OBJECT, has_object, or_none, read_object
from stackctl.preflight.checks.check import Finding, Subject, fail, ok


def check(subject: Subject) -> Iterator[Finding]:
    """Yield the manifest of the pinned release, and its signature."""
    settings, release = subject.settings, subject.settings.models.release
    bucket = model_bucket(settings.stack, subject.caller.account, settings.region)
    if release is None:
        yield ok("the stack pins none yet: the platform comes up without Triton")
        return
    make = f"python3 -m modelctl release MODELS_DIR --bucket {bucket} --pin stacks/Pulumi.{settings.stack}.yaml"
    s3 = subject.readers("s3")
    if or_none(lambda: s3.head_bucket(Bucket=bucket), *NO_OBJECT) is None:
        first = f"pulumi config rm --path triton-eks:models.release --stack {settings.stack}"
        yield fail(
            f"release {release.label} is pinned, and there is no bucket {bucket} yet",
            f"{first}; after the first `up`: {make}",
        )
        return
    key = f"{RELEASES_PREFIX}{release.id}/{RELEASE_MANIFEST}"
    if not has_object(s3, bucket, key):
        yield fail(f"release {release.label} is pinned, and s3://{bucket}/{key} is not there", make)
        return
    if not settings.models.signers:
        yield ok(f"{release.id} is in {bucket}")
        return
    names = (RELEASE_MANIFEST, RELEASE_SIGNATURE)
    manifest, signature = (read_object(s3, bucket, f"{RELEASES_PREFIX}{release.id}/{name}") for name in names)
    try:
        verify(release.id, manifest or b"", signature, settings.models.signers)
    except SignatureError as error:
        yield fail(error.problem, error.remedy)
        return
    yield ok(f"{release.id} is in {bucket}, signed by one of models.signers")
