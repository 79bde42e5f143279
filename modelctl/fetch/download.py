"""Download the files of a release in parallel parts, and hash each file as it arrives.

The memory use does not depend on the file sizes.
"""

from __future__ import annotations

import errno
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    IncompleteReadError,
)

from modelctl.fetch.partial_file import Part, PartialFile
from modelctl.fetch.progress import Progress
from modelctl.store.bucket import Store
from modelctl.store.errors import StoreError, explain
from spec.failure import NOT_TRIED, Failure

CONNECTIONS = 16
"""AWS advises one concurrent request for each 85 to 90 MB/s, so these give 11 Gbit/s
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance-guidelines.html)."""
_HASHERS = 4
_AHEAD = 8
"""Maximum parts of a file that wait to be hashed. Then no more of its parts are requested.

16 receiving threads release Python's lock (the GIL) too rarely for a hashing one. It would do most of its work after them,
on one CPU.
"""
_ATTEMPTS = 6
_FIRST_PAUSE_SECONDS = 0.5
_SERVER_ERROR = 500
_BROKEN = (HTTPClientError, ConnectTimeoutError, EndpointConnectionError, IncompleteReadError)
_FULL = {errno.ENOSPC, errno.EDQUOT}


class WrongFile(Failure):
    """A file differs from the manifest; the text names it."""


class _Ended(Exception):
    """Another thread has ended the pass."""


class DiskProblem(Failure):
    """The disk cannot hold the release, or is not writable."""

    exit_code = NOT_TRIED

    @classmethod
    def of(cls, error: OSError) -> DiskProblem:
        """Return the DiskProblem for a system error."""
        if error.errno in _FULL:
            return cls(f"{error.filename or 'the disk'}: the disk is full; give it more room, what has arrived stays")
        return cls(f"{error.filename or 'the disk'}: {error.strerror or error}; give a directory that can be written")


def download(release_id: str, files: Sequence[PartialFile], store: Store, progress: Progress) -> None:
    """Download all files to the disk, and verify each as it is stored there.

    Raises WrongFile for a file whose hash differs from the manifest, StoreError and DiskProblem. Downloaded data is kept for
    the next run, except the data of a wrong file.
    """
    doubtful, wrong = _pass(release_id, files, store, progress)
    if doubtful and not wrong:
        size = sum(file.entry.bytes for file in doubtful)
        progress.add(verified=-size, files=-len(doubtful))
        progress.say(f"what was here of {', '.join(file.key for file in doubtful)} is damaged; it is fetched again")
        _, wrong = _pass(release_id, doubtful, store, progress)  # started from zero, they no longer count as resumed
    if wrong:
        first = wrong[0]
        raise WrongFile(
            f"{first.key} in {store.place}/releases/{release_id}/ is not what the release's manifest says (sha-256 "
            f"{first.entry.sha256}): it was changed after the release; `modelctl verify {release_id}` names all such files. "
            "Restore their earlier object versions, or make another release"
        )


def _pass(
    release_id: str, files: Sequence[PartialFile], store: Store, progress: Progress
) -> tuple[list[PartialFile], list[PartialFile]]:
    """Return the files with a wrong hash, resumed ones and others separately. Their data is deleted.

    Data of an earlier process may be wrong although the bucket is right, if the machine crashed before the data was on the
    disk.
    """
    wrong = _Pass(release_id, files, store, progress).run()
    doubtful = [file for file in wrong if file.resumed]
    others = [file for file in wrong if not file.resumed]
    for file in wrong:
        file.begin_again()
    return doubtful, others


class _Pass:
    """Threads that receive parts in order, and others that hash them soon after.

    A pass continues after a resumed file with a wrong hash, and ends at the first other file with a wrong hash.
    """

    def __init__(self, release_id: str, files: Sequence[PartialFile], store: Store, progress: Progress) -> None:
        self._release_id = release_id
        self._store = store
        self._progress = progress
        self._unverified: queue.SimpleQueue[PartialFile] = queue.SimpleQueue()
        self._missing: dict[PartialFile, deque[Part]] = {}
        for file in files:
            self._unverified.put(file)
            if missing := deque(part for part in file.parts() if not file.has(part)):
                self._missing[file] = missing
        self._hashed: dict[PartialFile, int] = {}
        lock = threading.Lock()
        self._arrived, self._wanted = threading.Condition(lock), threading.Condition(lock)
        self._ended = threading.Event()
        self._failure: BaseException | None = None
        self._wrong: list[PartialFile] = []

    def run(self) -> list[PartialFile]:
        missing = sum(map(len, self._missing.values()))
        work = [self._receive] * min(CONNECTIONS, missing) + [self._verify] * _HASHERS
        threads = [threading.Thread(target=self._guarded, args=(one,), daemon=True) for one in work]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            self._end()
        if isinstance(self._failure, OSError):
            raise DiskProblem.of(self._failure)
        if self._failure is not None:
            raise self._failure
        return self._wrong

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except _Ended:
            return
        except BaseException as error:  # raised in a thread; `run` raises it again
            with self._arrived:
                self._failure = self._failure or error
            self._end()

    def _end(self) -> None:
        self._ended.set()
        with self._arrived:
            self._arrived.notify_all()
            self._wanted.notify_all()

    def _receive(self) -> None:
        while (asked := self._next()) is not None:
            file, part = asked
            file.write(part, self._pieces(file.key, part))
            with self._arrived:
                self._arrived.notify_all()

    def _next(self) -> tuple[PartialFile, Part] | None:
        """Wait for and return a part of the first file whose hash keeps up. None when all are taken or the pass ended."""
        with self._wanted:
            while self._missing and not self._ended.is_set():
                for file, parts in self._missing.items():
                    if file not in self._hashed or not file.has_next(self._hashed[file], _AHEAD):
                        part = parts.popleft()
                        if not parts:
                            del self._missing[file]
                            self._wanted.notify_all()
                        return file, part
                self._wanted.wait()
        return None

    def _verify(self) -> None:
        while not self._ended.is_set():
            try:
                file = self._unverified.get_nowait()
            except queue.Empty:
                return
            sha256 = file.sha256(partial(self._wait_for, file), self._count_verified)
            if sha256 is None:
                return
            self._progress.add(files=1)
            if sha256 != file.entry.sha256:
                with self._arrived:
                    self._wrong.append(file)
                if not file.resumed:
                    self._end()

    def _count_verified(self, size: int) -> None:
        self._progress.add(verified=size)

    def _wait_for(self, file: PartialFile, part: Part) -> bool:
        with self._arrived:
            self._hashed[file] = part.number
            if file.has(part):
                self._wanted.notify()
            else:
                self._wanted.notify_all()
                self._arrived.wait_for(lambda: self._ended.is_set() or file.has(part))
        return not self._ended.is_set()

    def _pieces(self, key: str, part: Part) -> Iterator[bytes]:
        """Yield the bytes of a part; if a connection breaks, continue at the same position."""
        at, failed = part.first, 0
        while at < part.end:
            try:
                for piece in self._store.pieces(self._release_id, key, at, part.end):
                    at += len(piece)
                    self._progress.add(received=len(piece))
                    yield piece
                    if self._ended.is_set():
                        raise _Ended
                    failed = 0
                if at < part.end:
                    raise self._shorter(key)
            except (BotoCoreError, ClientError) as error:
                failed += 1
                if failed == _ATTEMPTS or not _may_pass(error):
                    raise self._explained(key, error) from error
                self._progress.add(repeated=1)
                self._ended.wait(_FIRST_PAUSE_SECONDS * 2 ** (failed - 1))

    def _explained(self, key: str, error: BotoCoreError | ClientError) -> Failure:
        code = error.response["Error"]["Code"] if isinstance(error, ClientError) else None
        if code in {"NoSuchKey", "404"}:
            return WrongFile(
                f"{key} is missing in {self._store.place}/releases/{self._release_id}/, and its manifest has it; "
                f"`modelctl verify {self._release_id}` names all such files"
            )
        if code in {"InvalidRange", "416"}:
            return self._shorter(key)
        return StoreError(explain(error, self._store.place))

    def _shorter(self, key: str) -> WrongFile:
        return WrongFile(
            f"{key} in {self._store.place}/releases/{self._release_id}/ is shorter than its manifest says; "
            f"`modelctl verify {self._release_id}` names all such files"
        )


def _may_pass(error: BotoCoreError | ClientError) -> bool:
    """Return whether the same request may succeed a little later."""
    if isinstance(error, ClientError):
        return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)) >= _SERVER_ERROR
    return isinstance(error, _BROKEN)
