"""How pods read models: what a mounted release cannot do."""

from collections.abc import Iterator

from spec.settings.checks.subject import Check, Subject
from spec.settings.problem import Problem

_GIB = 1024**3
# While pods of one release replace those of another, both are read, and nothing else makes room in the file system.
_RELEASES_AT_ONCE = 2


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


def _a_file_system_is_described_where_it_is_used(subject: Subject) -> Iterator[Problem]:
    models = subject.document.models
    if models.access == "fsx-lustre" and models.fsx is None:
        yield Problem(
            "models.fsx",
            "is missing, and access: fsx-lustre needs a file system; "
            "add the section, like {storageGiB: 1200, throughputMBsPerTiB: 125}, or use another access",
        )
    if models.access != "fsx-lustre" and models.fsx is not None:
        yield Problem(
            "models.fsx", f"is not used with access: {models.access}; remove the section, or use access: fsx-lustre"
        )


def _releases_fit_the_file_system(subject: Subject) -> Iterator[Problem]:
    models = subject.document.models
    if models.fsx is None or models.release is None:
        return
    needed = _RELEASES_AT_ONCE * models.release.bytes
    if needed > models.fsx.storage_gib * _GIB:
        yield Problem(
            "models.fsx.storageGiB",
            f"{models.fsx.storage_gib} GiB do not hold two releases of {models.release.bytes / _GIB:.0f} GiB, and both are "
            f"read during a rollout; use {_smallest_file_system_gib(needed)} or more",
        )


def _smallest_file_system_gib(needed_bytes: int) -> int:
    """The smallest size that FSx makes and that holds so much, beyond its very smallest one."""
    return -(-needed_bytes // (2400 * _GIB)) * 2400


CHECKS: tuple[Check, ...] = (
    _a_mounted_release_does_not_change,
    _mountpoint_reads_s3_of_aws,
    _a_file_system_is_described_where_it_is_used,
    _releases_fit_the_file_system,
)
