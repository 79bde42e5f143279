"""List the releases in a bucket, finished or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from modelctl.release.retire import is_retired
from modelctl.store.bucket import Store
from modelctl.store.manifest import Manifest, ManifestError
from spec.failure import Failure


class State(StrEnum):
    """The state of a release.

    `released` has its manifest. `retired` has it too, and will be removed. `unfinished` has none. `damaged` has a manifest
    that cannot be trusted.
    """

    RELEASED = "released"
    RETIRED = "retired"
    UNFINISHED = "unfinished"
    DAMAGED = "damaged"


class UnknownRelease(Failure):
    """The bucket has no such release, or only an unfinished one; the text says which."""


@dataclass(frozen=True)
class Listed:
    """One release. `bytes`, `objects` and `created` of an unfinished one describe the objects uploaded so far."""

    id: str
    state: State
    created: datetime
    bytes: int
    objects: int
    models: dict[str, int]


def releases(store: Store) -> list[Listed]:
    """Return all releases in the bucket, oldest first. Raises StoreError."""
    listed = [_listed(store, release_id) for release_id in store.release_ids()]
    return sorted(listed, key=lambda release: (release.created, release.id))


def finished(store: Store, release_id: str, signers: Sequence[str] = ()) -> Manifest:
    """Return the manifest of a finished release. If there are `signers`, one of them must have signed it.

    Raises UnknownRelease, ManifestError, SignatureError and StoreError.
    """
    manifest = store.manifest(release_id, signers)
    if manifest is not None:
        return manifest
    known = store.release_ids()
    if release_id in known:
        raise UnknownRelease(
            f"release {release_id} in {store.place} is unfinished (it has no manifest): "
            "run `modelctl release` on the same models again, it continues"
        )
    names = ", ".join(known) or "none"
    raise UnknownRelease(f"there is no release {release_id} in {store.place}; releases: {names}")


def _listed(store: Store, release_id: str) -> Listed:
    try:
        manifest = store.manifest(release_id)
        state = State.UNFINISHED
    except ManifestError:
        manifest, state = None, State.DAMAGED
    if manifest is not None:
        return Listed(
            id=release_id,
            state=State.RETIRED if is_retired(store, release_id) else State.RELEASED,
            created=manifest.created,
            bytes=manifest.bytes,
            objects=len(manifest.objects),
            models=manifest.versions,
        )
    present = store.objects(release_id)
    return Listed(
        id=release_id,
        state=state,
        created=max((stored.modified for stored in present.values()), default=datetime.fromtimestamp(0).astimezone()),
        bytes=sum(stored.bytes for stored in present.values()),
        objects=len(present),
        models={},
    )
