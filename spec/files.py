"""Write files atomically: a reader sees the old or the new content, never a part. Uses only the standard library."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from spec.failure import NOT_TRIED, Failure

_NEW_FILE = 0o666
"""The requested mode of a new file, before the process's umask."""


class NotWritten(Failure):
    """A file was left unchanged. The text begins with the file's path and gives the reason."""

    exit_code = NOT_TRIED


def write_whole(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write one of the program's own files, and create its directory if needed. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _in_the_place_of(path, 0o600) as stream:
        os.fchmod(stream.fileno(), mode)
        stream.write(content)


def create(path: Path, content: bytes) -> None:
    """Create a user's file. Raises NotWritten if it exists, even if it was created a moment ago."""
    try:
        with _in_the_place_of(path, _NEW_FILE, os.link) as stream:
            stream.write(content)
    except FileExistsError:
        raise NotWritten(f"{path}: somebody else has made it meanwhile, and it is left as it is") from None
    except OSError as error:
        raise NotWritten(f"{path}: cannot be written: {error.strerror or error}") from None


def rewrite(path: Path, content: bytes, made_from: bytes | None = None) -> None:
    """Write a user's file, and create it and its directory if needed. Raises NotWritten.

    An existing file keeps its mode, owner and extended attributes. A symbolic link is kept, and its target is written. A
    device or pipe (/dev/stdout) is written directly. `made_from` is the content that the change is based on; if the file has
    changed since, it is left unchanged, so no other change is lost.
    """
    try:
        before = _before(path)
        if before is not None and not stat.S_ISREG(before.st_mode):
            path.write_bytes(content)
            return
        if before is not None and not _may_write(path, before):
            raise NotWritten(f"{path}: is write-protected; `chmod u+w` it, or write to another file")
        path.parent.mkdir(parents=True, exist_ok=True)
        target = path.resolve()

        def put(partial: Path, target: Path) -> None:
            with _one_at_a_time(target.parent):
                if made_from is not None and target.read_bytes() != made_from:
                    raise NotWritten(
                        f"{path}: somebody else has changed it meanwhile, and it is left as they wrote it; run the same "
                        "command again"
                    )
                partial.replace(target)

        with _in_the_place_of(target, _NEW_FILE if before is None else 0o600, put) as stream:
            stream.write(content)
            if before is not None:
                _make_like(stream.fileno(), target, before)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise NotWritten(f"{path}: cannot be written: {error.strerror or error}") from None


def _before(path: Path) -> os.stat_result | None:
    """Return the `stat` of a file, following links; None if it does not exist. Raises NotWritten for a directory or broken
    link."""
    try:
        found = path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            leads = f"{path}: is a link to {path.readlink()}, where nothing is"
            raise NotWritten(f"{leads}; make that file, or remove the link") from None
        return None
    if stat.S_ISDIR(found.st_mode):
        raise NotWritten(f"{path}: is a directory; name a file")
    return found


def _may_write(path: Path, found: os.stat_result) -> bool:
    """Return whether the file may be written.

    The kernel cannot tell: root may write any file, and replacing a file needs write permission only for the directory.
    """
    return bool(found.st_mode & 0o222) and os.access(path, os.W_OK)


def _make_like(descriptor: int, target: Path, before: os.stat_result) -> None:
    with contextlib.suppress(PermissionError):  # another user's file that its group may write: the new file gets our owner
        os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
    with contextlib.suppress(OSError):  # the file system has no extended attributes
        for name in os.listxattr(target):
            with contextlib.suppress(OSError):  # only root may set this attribute
                os.setxattr(descriptor, name, os.getxattr(target, name))


@contextlib.contextmanager
def _one_at_a_time(directory: Path) -> Iterator[None]:
    """Lock the directory against other processes that change files in this way. The kernel releases the lock."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # the file system has no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _in_the_place_of(path: Path, mode: int, put: Callable[[Path, Path], object] = os.replace) -> Iterator[BinaryIO]:
    """Open a new file in the same directory. If the block succeeds, the file replaces `path`; otherwise it is removed."""
    partial = path.with_name(f".new-{os.getpid()}-{secrets.token_hex(4)}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
        put(partial, path)
    finally:
        partial.unlink(missing_ok=True)
