"""Download a release and check that all objects match its manifest."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from modelctl.release.progress import Observer
from modelctl.store.bucket import Store
from modelctl.store.manifest import Manifest


@dataclass(frozen=True)
class Report:
    """Differences between a release and its manifest; `changed` has the difference by key."""

    id: str
    objects: int
    missing: list[str]
    extra: list[str]
    changed: dict[str, str]

    @property
    def ok(self) -> bool:
        return not (self.missing or self.extra or self.changed)


def verify(manifest: Manifest, store: Store, watch: Observer) -> Report:
    """Download and hash all objects of a release. Raises StoreError."""
    present = store.objects(manifest.id)
    changed: dict[str, str] = {}
    watch.begin("reading", sum(stored.bytes for key, stored in present.items() if key in manifest.objects))
    for key, entry in manifest.objects.items():
        if key not in present:
            continue
        sha256, size = hashlib.sha256(), 0
        for piece in store.chunks(manifest.id, key):
            sha256.update(piece)
            size += len(piece)
            watch.advance(len(piece))
        if size != entry.bytes:
            changed[key] = f"{size} bytes instead of {entry.bytes}"
        elif sha256.hexdigest() != entry.sha256:
            changed[key] = f"sha-256 {sha256.hexdigest()} instead of {entry.sha256}"
        watch.finished(key, size, "changed" if key in changed else "verified")
    return Report(
        id=manifest.id,
        objects=len(manifest.objects),
        missing=sorted(set(manifest.objects) - set(present)),
        extra=sorted(set(present) - set(manifest.objects)),
        changed=changed,
    )
