"""Bring one whole release into a directory, by way of a cache where there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from modelctl.fetch.directory import FetchDirectory
from modelctl.fetch.download import download
from modelctl.fetch.progress import Progress
from modelctl.store.bucket import Store
from modelctl.store.manifest import Manifest


@dataclass(frozen=True)
class Cache:
    """A directory that several fetches share, which holds releases of at most so many GiB."""

    directory: Path
    gib: int


@dataclass(frozen=True)
class Fetcher:
    """Fetch releases of a store. `say` gets lines for the log, `during` is entered while files arrive."""

    store: Store
    cache: Cache | None
    say: Callable[[str], None]
    during: Callable[[Progress], AbstractContextManager[None]]

    def bring(self, manifest: Manifest, directory: FetchDirectory, beside: Iterable[Manifest] = ()) -> str:
        """Make the release one of the directory's, which is locked, and return how, for a line of the log.

        `beside`: releases whose files are taken where they are the same. Raises Failure, and OSError for `told`.
        """
        if self.cache is None or directory.holds(manifest):
            return self._fetched(manifest, directory, beside)
        kept = FetchDirectory(self.cache.directory, is_cache=True)
        with kept.locked(self.say):
            kept.make_room(manifest, self.cache.gib, self.say)
            how = f"{self._fetched(manifest, kept)}, copied from {self.cache.directory}"
            directory.copy_from(kept, manifest)
        return how

    def _fetched(self, manifest: Manifest, into: FetchDirectory, beside: Iterable[Manifest] = ()) -> str:
        if into.holds(manifest):
            return "was here"
        progress = Progress(manifest, self.say)
        with self.during(progress):
            files = into.begin(manifest, beside)
            progress.add(found=sum(file.arrived_bytes for file in files))
            with progress.told():
                download(manifest.id, files, self.store, progress)
        into.finish(manifest)
        return f"fetched and verified: {progress.summary()}"
