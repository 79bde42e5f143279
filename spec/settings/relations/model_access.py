"""How pods read models, and how a rollout changes them."""

from collections.abc import Iterator

from spec.problem import Problem
from spec.settings.relations.subject import Subject
from spec.settings.rule import rule
from spec.wording import one_of


@rule
def _one_release_does_not_change(subject: Subject) -> Iterator[Problem]:
    """Refuse rollouts in place of a release that is mounted, or copied once."""
    access = subject.document.models.access
    if access == "local" and subject.document.triton.rollout == "in-place":
        yield Problem(
            "models.access",
            "'local' copies one release before the server starts, and rollout: in-place changes it under running pods; "
            "use s3, or rollout: rolling",
        )
    elif access != "s3" and subject.document.triton.rollout == "in-place":
        yield Problem(
            "models.access",
            f"'{access}' mounts one release, and rollout: in-place changes it under running pods; "
            "use s3, or rollout: rolling",
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
