"""Models that are served in several versions at a time: `models.release.others`."""

from collections.abc import Iterator

from spec.settings.checks.subject import Check, Subject
from spec.settings.problem import Problem
from spec.wording import did_you_mean, one_of


def _others_are_of_the_release(subject: Subject) -> Iterator[Problem]:
    release = subject.document.models.release
    if release is None:
        return
    for model, others in release.others.items():
        path = f"models.release.others.{model}"
        if model not in release.models:
            near = did_you_mean(model, release.models)
            yield Problem(path, f"release {release.id} has no such model; {near}it has {one_of(release.models)}")
        elif max(others) >= release.models[model]:
            yield Problem(
                path,
                f"{max(others)} is not lower than {release.models[model]}, which answers requests that name no version; "
                f"run `python -m modelctl release … --pin stacks/Pulumi.{subject.stack}.yaml`, which writes both",
            )


def _rollouts_replace_one_version_by_one(subject: Subject) -> Iterator[Problem]:
    release = subject.document.models.release
    if release is not None and release.others and subject.document.triton.rollout == "in-place":
        yield Problem(
            "models.release.others",
            f"{one_of(release.others)} is served in several versions, and a rollout in place replaces one version by one "
            "other; name one version of each model in release.yaml, or use triton.rollout: rolling",
        )


CHECKS: tuple[Check, ...] = (_others_are_of_the_release, _rollouts_replace_one_version_by_one)
