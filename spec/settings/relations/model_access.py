"""How pods read models, and how a rollout changes them."""

from collections.abc import Iterator

from spec.problem import Problem
from spec.settings.relations.subject import Subject
from spec.settings.rule import rule
from spec.versions import OLDEST_TRITON_VERSION, OLDEST_TRITON_WITHOUT_SIGPIPE
from spec.wording import one_of


@rule
def _a_mounted_release_does_not_change(subject: Subject) -> Iterator[Problem]:
    """Refuse rollouts in place of a release that is mounted."""
    access = subject.document.models.access
    if access != "s3" and subject.document.triton.rollout == "in-place":
        yield Problem(
            "models.access",
            f"'{access}' mounts one release, and rollout: in-place changes it under running pods; "
            "use s3, or rollout: rolling",
        )


@rule
def _rollouts_in_place_survive_idle_connections(subject: Subject) -> Iterator[Problem]:
    """Require a server for rollouts in place that a connection to S3 which S3 has closed does not end: it reads from S3
    again long after its start (docs/facts/triton-s3.md#requests).
    """
    triton = subject.document.triton
    if triton.rollout != "in-place" or subject.document.models.access != "s3":
        return
    if OLDEST_TRITON_VERSION <= triton.version < OLDEST_TRITON_WITHOUT_SIGPIPE:
        yield Problem(
            "triton.rollout",
            f"in-place reads from S3 again hours after the start, and Triton {triton.version} is ended by SIGPIPE if S3 "
            f'has closed the connection meanwhile; use triton.version "{OLDEST_TRITON_WITHOUT_SIGPIPE}" or newer, or '
            "rollout: rolling",
        )


@rule
def _rollouts_replace_one_version_by_one(subject: Subject) -> Iterator[Problem]:
    """Refuse rollouts in place of models that are served in several versions."""
    release = subject.document.models.release
    if release is not None and release.others and subject.document.triton.rollout == "in-place":
        yield Problem(
            "models.release.others",
            f"{one_of(release.others)} is served in several versions, and a rollout in place replaces one version by one "
            "other; name one version of each model in release.yaml, or use triton.rollout: rolling",
        )
