"""Retire a release: tag its objects, so the bucket's lifecycle rule `retired-releases` removes them.

The manifest is tagged last and untagged last: its tag exists from when all objects are tagged until all are untagged. So
running an interrupted command again finishes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from modelctl.release.pin import pinned_by
from modelctl.store.bucket import Store
from modelctl.store.live import LiveRepository
from modelctl.store.manifest import Manifest
from spec.failure import Failure
from spec.names import RELEASE_MANIFEST, RELEASE_SIGNATURE, RETIRED_TAG


class RetirementError(Failure):
    """The release's pins or tags forbid the operation. The text is one sentence with the remedy."""


@dataclass(frozen=True)
class Tagged:
    """The numbers of objects whose tags were changed, and were right before. The manifest is included."""

    changed: int
    unchanged: int


def retire(manifest: Manifest, store: Store, stacks: Path) -> Tagged:
    """Tag all objects of a finished release, including objects that are not in its manifest. Keep other tags.

    Before tagging, raises RetirementError when a file in `stacks` pins the release or names it as the previous one. It is
    also raised when in-place pods serve the release or may return to it. Raises PinError when the stack files cannot be
    read, StoreError and JournalError.
    """
    pins = pinned_by(stacks, manifest.id)
    if pins.files:
        names = ", ".join(map(str, pins.files))
        raise RetirementError(f"release {manifest.id} is pinned by {names}: pin another release there first")
    if pins.as_previous:
        names = ", ".join(map(str, pins.as_previous))
        raise RetirementError(
            f"release {manifest.id} is what `modelctl rollback` returns to in {names}: pin another release there first, or "
            "delete models.release.previous there to give that up"
        )
    if manifest.id in LiveRepository(store).read_journal()[0].releases:
        raise RetirementError(
            f"release {manifest.id} is what `modelctl rollout` serves, brings or returns to in {store.place}/live/: "
            "roll another release out first"
        )
    keys = [*sorted(store.objects(manifest.id)), *_signature(manifest, store), RELEASE_MANIFEST]
    return _tally([_tag(store, manifest.id, key) for key in keys])


def restore(manifest: Manifest, store: Store) -> Tagged:
    """Remove the tags again. Raises StoreError.

    Raises RetirementError when objects have been removed meanwhile. The remaining objects are untagged and thus safe, but
    the release stays retired, because no server could load it.
    """
    changed = [untag(store, manifest.id, key) for key in sorted(store.objects(manifest.id))]
    # List the objects again: those that existed before are untagged now and cannot expire any more.
    if missing := sorted(set(manifest.objects) - set(store.objects(manifest.id))):
        raise RetirementError(
            f"release {manifest.id} in {store.place} stays retired, because {len(missing)} of its {len(manifest.objects)} "
            f"objects are removed already (first: {missing[0]}): restore their earlier versions, then run this again"
        )
    return _tally([*changed, *(untag(store, manifest.id, key) for key in (*_signature(manifest, store), RELEASE_MANIFEST))])


def is_retired(store: Store, release_id: str, key: str = RELEASE_MANIFEST) -> bool:
    """Return whether the object is tagged; the manifest's tag applies to the release. Raises StoreError."""
    name, value = RETIRED_TAG
    return (store.tags(release_id, key) or {}).get(name) == value


def refuse_retired(manifest: Manifest, store: Store) -> None:
    """Raise RetirementError when any object of the release is tagged, even by an interrupted retirement.

    The servers of a stack that pins it would run until S3 removes the object, and fail at their next start. Raises
    StoreError.
    """
    keys = [*manifest.objects, RELEASE_MANIFEST]
    if tagged := sum(is_retired(store, manifest.id, key) for key in keys):
        raise RetirementError(
            f"release {manifest.id} in {store.place} is retired ({tagged} of {len(keys)} objects), and S3 will remove it: "
            f"run `modelctl retire --undo {manifest.id}` first"
        )


def _signature(manifest: Manifest, store: Store) -> list[str]:
    return [RELEASE_SIGNATURE] if store.tags(manifest.id, RELEASE_SIGNATURE) is not None else []


def _tag(store: Store, release_id: str, key: str) -> bool:
    name, value = RETIRED_TAG
    tags = store.tags(release_id, key)
    if tags is None or tags.get(name) == value:
        return False
    store.write_tags(release_id, key, {**tags, name: value})
    return True


def untag(store: Store, release_id: str, key: str) -> bool:
    """Delete the tag; return whether the object had it. Raises StoreError."""
    name, value = RETIRED_TAG
    tags = store.tags(release_id, key)
    if tags is None or tags.get(name) != value:
        return False
    store.write_tags(release_id, key, {other: tags[other] for other in tags if other != name})
    return True


def _tally(changed: list[bool]) -> Tagged:
    return Tagged(changed=sum(changed), unchanged=len(changed) - sum(changed))
