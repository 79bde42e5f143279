"""How pods read models: what a mounted release cannot do (issue 5 point 8)."""

from collections.abc import Iterator

from infra.settings.checks.subject import Check, Subject
from infra.settings.problem import Problem


def _a_mounted_release_does_not_change(subject: Subject) -> Iterator[Problem]:
    access = subject.document.models.access
    if access != "s3" and subject.document.triton.rollout == "in-place":
        yield Problem(
            "models.access",
            f"'{access}' mounts one release, and rollout: in-place changes it under running pods; "
            "use s3, or rollout: rolling",
        )


def _mountpoint_reads_s3_of_aws(subject: Subject) -> Iterator[Problem]:
    models = subject.document.models
    if models.access != "s3" and models.s3_endpoint is not None:
        yield Problem(
            "models.access",
            f"'{models.access}' mounts a bucket of AWS, and models.s3Endpoint names another store; "
            "use s3, or remove s3Endpoint",
        )


CHECKS: tuple[Check, ...] = (_a_mounted_release_does_not_change, _mountpoint_reads_s3_of_aws)
