"""Fetch one complete release into a directory, through a cache if there is one."""

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
    """A directory that several fetches share, which holds at most `gib` GiB of releases."""

    directory: Path
    gib: int


@dataclass(frozen=True)
class Fetcher:
    """Fetches releases of a store. `say` gets lines for the log, `during` is entered while files arrive."""

    store: Store
    cache: Cache | None
    say: Callable[[str], None]
    during: Callable[[Progress], AbstractContextManager[None]]

    def bring(self, manifest: Manifest, directory: FetchDirectory, beside: Iterable[Manifest] = ()) -> str:
        """Add the release to the locked directory, and return how, for a log line.

        `beside`: releases whose identical files are reused. Raises Failure, and OSError for `told`.
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
