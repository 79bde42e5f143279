"""The directory into which releases are fetched.

releases/<id>/…      complete releases, each file verified
live/<digest>/…      the view for a server of live/ (`modelctl.fetch.live_view`): links into releases, and the configs
current              a link to the release or view that was requested last: the path for a server
.fetching/<id>/      incomplete releases: `files/…`, and `parts/…` with their journals
.verified/<id>       the boot of the machine during which the release was verified
.modelctl-fetch      the lock of a running fetch, and the mark of a directory for fetches. Its text tells a cache (without
                     `current`: any release may make room for another) from a server's directory
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from modelctl.fetch.download import DiskProblem
from modelctl.fetch.partial_file import PIECE_BYTES, PartialFile, has_size
from modelctl.store.manifest import Manifest
from spec.names import CURRENT_RELEASE, RELEASES_PREFIX

GIB = 1024**3
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NOT_IN_THE_KERNEL = {errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}
_BLOCK = 512
"""The unit of st_blocks."""
_MARK = ".modelctl-fetch"
_CACHE = b"a cache\n"
_SERVED = b"a server's\n"
_OF_THE_DISK = {"lost+found"}


class FetchDirectory:
    """One such directory. Methods raise DiskProblem, or OSError, which `told` turns into DiskProblem."""

    def __init__(self, root: Path, *, is_cache: bool = False) -> None:
        self._root = root
        self._is_cache = is_cache

    @property
    def root(self) -> Path:
        """Return the directory."""
        return self._root

    @property
    def current(self) -> Path:
        """Return the link to the release that was requested last."""
        return self._root / CURRENT_RELEASE

    @contextmanager
    def locked(self, say: Callable[[str], None]) -> Iterator[None]:
        """Lock the directory, creating it if it is missing; other fetches wait.

        Raises DiskProblem for a directory with other files, and for a cache that is used as a server's directory or the
        other way round, because fetches remove releases and replace `current` here.
        """
        self._root.mkdir(parents=True, exist_ok=True)
        self._refuse_that_of_others()
        file = os.open(self._root / _MARK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                # This fetch itself may hold the lock under another path, and would wait for itself.
                self._refuse_the_other_kind(file)
                say(f"another fetch is at work in {self._root}; waiting for it")
                fcntl.flock(file, fcntl.LOCK_EX)
            self._refuse_the_other_kind(file)
            if not os.fstat(file).st_size:
                os.pwrite(file, _CACHE if self._is_cache else _SERVED, 0)
            yield
        finally:
            os.close(file)

    def holds(self, manifest: Manifest) -> bool:
        """Return whether the release exists and was verified since the machine started.

        Files written before a crash may have lost data that was only in memory.
        """
        verified, release = self._verified(manifest.id), self._release(manifest.id)
        boot = _boot()
        if boot is None or not verified.is_file() or verified.read_text() != boot:
            return False
        return all(has_size(release / key, entry.bytes) for key, entry in manifest.objects.items())

    def begin(self, manifest: Manifest, beside: Iterable[Manifest] = ()) -> list[PartialFile]:
        """Open the release's files with all the data that exists here, and return them. Delete incomplete other releases.

        Files that a complete release in `beside` has too are hard links to it, and are hashed like all others.
        """
        self._forget_fetched({manifest.id})
        own, release = self._fetching(manifest.id), self._release(manifest.id)
        self._verified(manifest.id).unlink(missing_ok=True)
        files = [
            PartialFile(key, entry, own / "files" / key, own / "parts" / key) for key, entry in manifest.objects.items()
        ]
        if release.is_dir():
            shutil.rmtree(own, ignore_errors=True)
            own.mkdir(parents=True)
            release.rename(own / "files")
            for file in files:
                if has_size(file.path, file.entry.bytes):
                    file.trust()
        here = self._files_of(beside)
        for file in files:
            same = here.get((file.entry.sha256, file.entry.bytes))
            if same is not None and not file.path.exists():
                file.path.parent.mkdir(parents=True, exist_ok=True)
                os.link(same, file.path)
                file.trust()
            file.open()
        self._refuse_a_small_disk(files)
        return files

    def finish(self, manifest: Manifest) -> None:
        """Move the fetched release into `releases` atomically."""
        own, release = self._fetching(manifest.id), self._release(manifest.id)
        release.parent.mkdir(exist_ok=True)
        (own / "files").rename(release)
        self._verified(manifest.id).parent.mkdir(exist_ok=True)
        self._verified(manifest.id).write_text(_boot() or "")
        shutil.rmtree(own)

    def copy_from(self, other: FetchDirectory, manifest: Manifest) -> None:
        """Copy a complete release of another directory into `releases`.

        On XFS and Btrfs both share their blocks, so a copy takes neither time nor space.
        """
        own, release = self._fetching(manifest.id), other._release(manifest.id)
        shutil.rmtree(own.parent, ignore_errors=True)
        shutil.rmtree(self._release(manifest.id), ignore_errors=True)
        for key, entry in manifest.objects.items():
            target = own / "files" / key
            target.parent.mkdir(parents=True, exist_ok=True)
            _copy(release / key, target, entry.bytes)
        self.finish(manifest)

    def make_room(self, manifest: Manifest, most_gib: int, say: Callable[[str], None]) -> None:
        """Remove the oldest releases until this one fits into `most_gib` GiB with the others. Age is the time since the last
        request.

        No server reads releases in a cache, because each user has a copy. Raises DiskProblem for a release that never fits.
        """
        most_bytes = most_gib * GIB
        if manifest.bytes > most_bytes:
            raise DiskProblem(
                f"release {manifest.id} has {manifest.bytes} bytes, and the cache {self._root} holds {most_bytes} at most; "
                "give it more room, or fetch without it"
            )
        releases = self._root / RELEASES_PREFIX
        others = [path for path in releases.iterdir() if path.name != manifest.id] if releases.is_dir() else []
        others.sort(
            key=lambda path: self._verified(path.name).stat().st_mtime if self._verified(path.name).is_file() else 0.0
        )
        sizes = {path: sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) for path in others}
        while others and manifest.bytes + sum(sizes[path] for path in others) > most_bytes:
            oldest = others.pop(0)
            self._verified(oldest.name).unlink(missing_ok=True)
            shutil.rmtree(oldest)
            say(f"removed release {oldest.name} from {self._root}, to make room for {manifest.id}")
        if self._verified(manifest.id).is_file():
            self._verified(manifest.id).touch()

    def switch(self, to: str) -> None:
        """Point `current` to a folder of this directory atomically. A reader sees either the old or the new one."""
        new = self._root / ".current"
        new.unlink(missing_ok=True)
        new.symlink_to(to)
        new.replace(self.current)

    def keep(self, release_ids: Collection[str]) -> list[str]:
        """Remove all other releases, complete or not; return the removed complete ones."""
        self._forget_fetched(release_ids)
        releases = self._root / RELEASES_PREFIX
        gone = [path for path in releases.iterdir() if path.name not in release_ids] if releases.is_dir() else []
        for path in gone:
            self._verified(path.name).unlink(missing_ok=True)
            shutil.rmtree(path)
        return sorted(path.name for path in gone)

    def _forget_fetched(self, but: Collection[str]) -> None:
        fetching = self._root / ".fetching"
        for other in fetching.iterdir() if fetching.is_dir() else ():
            if other.name not in but:
                shutil.rmtree(other)

    def _files_of(self, manifests: Iterable[Manifest]) -> dict[tuple[str, int], Path]:
        return {
            (entry.sha256, entry.bytes): self._release(manifest.id) / key
            for manifest in manifests
            if self.holds(manifest)
            for key, entry in manifest.objects.items()
        }

    def _refuse_that_of_others(self) -> None:
        found = sorted({path.name for path in self._root.iterdir()} - _OF_THE_DISK)
        if found and _MARK not in found:
            raise DiskProblem(
                f"{self._root} holds what no fetch has put there ({', '.join(found[:3])}{', …' if len(found) > 3 else ''}); "
                "give an empty directory, or one that is not there"
            )

    def _refuse_the_other_kind(self, mark: int) -> None:
        found = os.pread(mark, len(_SERVED), 0)
        if self._is_cache and (found == _SERVED or self.current.is_symlink()):
            raise DiskProblem(
                f"{self._root} is no cache but the --to of a fetch, and a server may read what a cache removes; give "
                "another directory as --cache"
            )
        if not self._is_cache and found == _CACHE:
            raise DiskProblem(
                f"{self._root} is a cache, from which fetches remove releases; give another directory as --to, and this one "
                "as --cache"
            )

    def _fetching(self, release_id: str) -> Path:
        return self._root / ".fetching" / release_id

    def _release(self, release_id: str) -> Path:
        return self._root / RELEASES_PREFIX / release_id

    def _verified(self, release_id: str) -> Path:
        return self._root / ".verified" / release_id

    def _refuse_a_small_disk(self, files: Sequence[PartialFile]) -> None:
        missing = sum(max(0, file.entry.bytes - file.path.stat().st_blocks * _BLOCK) for file in files)
        free = shutil.disk_usage(self._root).free
        if missing > free:
            raise DiskProblem(
                f"{self._root} has {free} bytes free, and {missing} bytes of the release are missing; give it a larger "
                "disk, or make room on this one"
            )


def refuse_nested(to: Path, cache: Path) -> None:
    """Raise DiskProblem if both directories are the same, or one is inside the other."""
    with told():
        to_, cache_ = to.resolve(), cache.resolve()
    if to_ == cache_:
        raise DiskProblem(f"--to and --cache are both {to}: a release is copied from one to the other; give two directories")
    if to_.is_relative_to(cache_) or cache_.is_relative_to(to_):
        inner, outer = (to, cache) if to_.is_relative_to(cache_) else (cache, to)
        raise DiskProblem(f"{inner} lies inside of {outer}; give two directories of which neither holds the other")


@contextmanager
def told() -> Iterator[None]:
    """Turn OSError into DiskProblem."""
    try:
        yield
    except OSError as error:
        raise DiskProblem.of(error) from error


def _copy(source: Path, target: Path, size: int) -> None:
    """Copy a file in the kernel, which shares its blocks if the file system can. Raises DiskProblem for a wrong size."""
    with source.open("rb") as read, target.open("wb") as write:
        left = size
        try:
            while left and (copied := os.copy_file_range(read.fileno(), write.fileno(), left)):
                left -= copied
        except OSError as error:
            if error.errno not in _NOT_IN_THE_KERNEL:
                raise
        # Some file systems copy less and report the end: https://man7.org/linux/man-pages/man2/copy_file_range.2.html#BUGS
        shutil.copyfileobj(read, write, PIECE_BYTES)
    if (found := target.stat().st_size) != size:
        raise DiskProblem(f"{source}: {found} bytes were copied of {size}; run the same command again")


def _boot() -> str | None:
    """Return an id that changes at each start of the machine. None if the system has none."""
    return _BOOT_ID.read_text().strip() if _BOOT_ID.is_file() else None
