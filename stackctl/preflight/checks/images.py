"""Check that ECR has the container images with the digests in the stack file."""

from __future__ import annotations

import re
from collections.abc import Iterator

from botocore.exceptions import ClientError

from spec.versions import example_digest
from stackctl.account.read_only import error_code, is_denied
from stackctl.preflight.checks.check import Finding, Subject, fail, ok, unanswered, unknown

_ECR = re.compile(r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?/(?P<repository>[^@]+)")


def check(subject: Subject) -> Iterator[Finding]:
    """Check Triton's image, and the worker and modelctl images for each part of the stack that runs them."""
    triton, worker, models = subject.settings.triton, subject.settings.worker, subject.settings.models
    monitoring = subject.settings.monitoring
    example = triton.image.endswith(example_digest(triton.version))
    yield _image(
        subject,
        "triton.image",
        triton.image,
        f"python3 -m stackctl image {triton.version} --stack {subject.settings.stack} --mirror copies it there and pins it"
        + (" (the digest in the stack file is the example that no registry has)" if example else ""),
    )
    built = [
        ("worker.image", worker.image if worker else None),
        ("models.fetcher.image", models.fetcher.image if models.fetcher else None),
        ("models.planBuilder.image", models.plan_builder.image if models.plan_builder else None),
        ("monitoring.parityImage", monitoring.parity_image if monitoring else None),
        ("triton.comparerImage", triton.comparer_image),
    ]
    for key, image in built:
        if image is not None:
            yield _image(
                subject,
                key,
                image,
                f"`sudo make images` and `python3 -m stackctl push-images --stack {subject.settings.stack}`, which pins it",
            )


def _image(subject: Subject, key: str, image: str, remedy: str) -> Finding:
    repository, _, digest = image.partition("@")
    place = _ECR.fullmatch(repository)
    if place is None:
        return unknown(f"{key}: {repository} is not in ECR, which is the only registry that can be asked here")
    ecr = subject.readers("ecr", place["region"])
    try:
        ecr.describe_images(
            registryId=place["account"], repositoryName=place["repository"], imageIds=[{"imageDigest": digest}]
        )
    except ClientError as error:
        code = error_code(error)
        if is_denied(error):
            return unanswered(error, subject.readers)
        if code == "RepositoryNotFoundException":
            return fail(
                f"{key}: account {place['account']} has no repository {place['repository']} in {place['region']}",
                remedy,
            )
        if code == "ImageNotFoundException":
            return fail(f"{key}: {repository} has no image {digest[:19]}…", remedy)
        raise
    return ok(f"{key}: {repository} has {digest[:19]}…")
