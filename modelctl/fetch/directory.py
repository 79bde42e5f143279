"""The directory that a release is fetched into.

releases/<id>/…      releases that are whole, each file verified
current              a link to the one of them that was asked for last: the path to give to a server
.fetching/<id>/      what has arrived of others: `files/…`, and `parts/…` with their journals
.verified/<id>       the boot of the machine during which the release was verified
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from modelctl.fetch.download import DiskProblem
from modelctl.fetch.partial_file import PartialFile
from modelctl.store.manifest import Manifest
from spec.names import CURRENT_RELEASE, RELEASES_PREFIX

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_BLOCK = 512
"""The unit of st_blocks."""


class FetchDirectory:
    """One such directory. Methods raise DiskProblem, or OSError for what `told` turns into one."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def current(self) -> Path:
        """Return the link to the release that was asked for last."""
        return self._root / CURRENT_RELEASE

    @contextmanager
    def locked(self, say: Callable[[str], None]) -> Iterator[None]:
        """Keep other fetches out of the directory, which wait; it is made where it is missing."""
        with told():
            self._root.mkdir(parents=True, exist_ok=True)
            file = os.open(self._root / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say(f"another fetch is at work in {self._root}; waiting for it")
                fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)

    def holds(self, manifest: Manifest) -> bool:
        """Return whether the release is there and was verified since the machine started.

        Files that were written before a crash may have lost what was in memory only.
        """
        mark, release = self._mark(manifest.id), self._release(manifest.id)
        if not mark.is_file() or mark.read_text() != _boot():
            return False
        paths = [(release / key, entry.bytes) for key, entry in manifest.objects.items()]
        return all(path.is_file() and path.stat().st_size == size for path, size in paths)

    def begin(self, manifest: Manifest) -> list[PartialFile]:
        """Return the release's files, opened, with all that is here of them. What is left of other releases goes."""
        fetching = self._root / ".fetching"
        for other in fetching.iterdir() if fetching.is_dir() else ():
            if other.name != manifest.id:
                shutil.rmtree(other)
        own, release = fetching / manifest.id, self._release(manifest.id)
        self._mark(manifest.id).unlink(missing_ok=True)
        files = [
            PartialFile(key, entry, own / "files" / key, own / "parts" / key) for key, entry in manifest.objects.items()
        ]
        if release.is_dir():
            shutil.rmtree(own, ignore_errors=True)
            own.mkdir(parents=True)
            release.rename(own / "files")
            for file in files:
                if file.path.is_file() and file.path.stat().st_size == file.entry.bytes:
                    file.trust()
        for file in files:
            file.open()
        self._refuse_a_small_disk(files)
        return files

    def finish(self, manifest: Manifest) -> None:
        """Make the fetched release one of `releases`, in one step."""
        own, release = self._root / ".fetching" / manifest.id, self._release(manifest.id)
        release.parent.mkdir(exist_ok=True)
        (own / "files").rename(release)
        self._mark(manifest.id).parent.mkdir(exist_ok=True)
        self._mark(manifest.id).write_text(_boot())
        shutil.rmtree(own)

    def switch(self, manifest: Manifest) -> None:
        """Let `current` lead to the release, in one step: whoever opens a path below it sees one release or the other."""
        new = self._root / ".current"
        new.unlink(missing_ok=True)
        new.symlink_to(f"{RELEASES_PREFIX}{manifest.id}")
        new.replace(self.current)

    def _release(self, release_id: str) -> Path:
        return self._root / RELEASES_PREFIX / release_id

    def _mark(self, release_id: str) -> Path:
        return self._root / ".verified" / release_id

    def _refuse_a_small_disk(self, files: Sequence[PartialFile]) -> None:
        missing = sum(max(0, file.entry.bytes - file.path.stat().st_blocks * _BLOCK) for file in files)
        free = shutil.disk_usage(self._root).free
        if missing > free:
            raise DiskProblem(
                f"{self._root} has {free} bytes free, and {missing} bytes of the release are missing; give it a larger "
                "disk, or make room on this one"
            )


@contextmanager
def told() -> Iterator[None]:
    """Turn what the system says of files into DiskProblem."""
    try:
        yield
    except OSError as error:
        raise DiskProblem.of(error) from error


def _boot() -> str:
    return _BOOT_ID.read_text().strip()
