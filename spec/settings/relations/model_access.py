"""How pods read models, and how a rollout changes them."""

from collections.abc import Iterator

from spec.problem import Problem
from spec.settings.relations.subject import Subject
from spec.settings.rule import rule
from spec.wording import one_of

_GIB = 1024**3


@rule
def _one_release_does_not_change(subject: Subject) -> Iterator[Problem]:
    """Refuse in-place rollouts with a mounted release."""
    access = subject.document.models.access
    if access not in {"s3", "local"} and subject.document.triton.rollout == "in-place":
        yield Problem(
            "models.access",
            f"'{access}' mounts one release, and rollout: in-place changes it under running pods; use local or s3, or "
            "rollout: rolling",
        )


@rule
def _a_cache_of_nodes_is_filled(subject: Subject) -> Iterator[Problem]:
    """Require access: local for a pool that caches releases on its nodes, and a cache that holds the release."""
    models = subject.document.models
    for index, pool in enumerate(subject.document.gpu.pools):
        if pool.model_cache_gib is None:
            continue
        path = f"gpu.pools[{index}].modelCacheGiB"
        if models.access != "local":
            yield Problem(
                path, f"nothing is kept there with models.access: {models.access}; use access: local, or remove it"
            )
        elif models.release is not None and models.release.bytes > pool.model_cache_gib * _GIB:
            yield Problem(
                path,
                f"{pool.model_cache_gib} GiB do not hold the release of {models.release.bytes} bytes; give "
                f"{-(-models.release.bytes // _GIB)} or more",
            )


@rule
def _rollouts_replace_one_version_by_one(subject: Subject) -> Iterator[Problem]:
    """Refuse in-place rollouts with models that are served in several versions."""
    release = subject.document.models.release
    if release is not None and release.others and subject.document.triton.rollout == "in-place":
        yield Problem(
            "models.release.others",
            f"{one_of(release.others)} is served in several versions, and a rollout in place replaces one version by one "
            "other; name one version of each model in release.yaml, or use triton.rollout: rolling",
        )
