"""Write files so that a reader sees the old content or the new one, never a part. The standard library is all it needs."""

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
"""The mode that a new file is asked for; the process's umask takes from it."""


class NotWritten(Failure):
    """A file was left as it was; the text is a sentence that begins with its path and says why."""

    exit_code = NOT_TRIED


def write_whole(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file of the program's own, making its directory when absent. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _in_the_place_of(path, 0o600) as stream:
        os.fchmod(stream.fileno(), mode)
        stream.write(content)


def create(path: Path, content: bytes) -> None:
    """Write a person's file where none is, not even one that has come since somebody looked. Raises NotWritten."""
    try:
        with _in_the_place_of(path, _NEW_FILE, os.link) as stream:
            stream.write(content)
    except FileExistsError:
        raise NotWritten(f"{path}: somebody else has made it meanwhile, and it is left as it is") from None
    except OSError as error:
        raise NotWritten(f"{path}: cannot be written: {error.strerror or error}") from None


def rewrite(path: Path, content: bytes, made_from: bytes | None = None) -> None:
    """Write a person's file, making it and its directory when absent.

    Of a file that is there, the mode, the owner and the extended attributes stay. A symbolic link stays one, and what it
    leads to is written. A device or pipe (/dev/stdout) is written to. `made_from`: what was read of it, and `content` is
    a change of; a file that is something else by now stays as it is, so that nobody's change is lost. Raises NotWritten.
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
    """Return the `stat` of a file, behind links; None where nothing is. Raises NotWritten where no file can be written."""
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

    The kernel does not tell: root may write any file, and a replacement needs the right to write the directory only.
    """
    return bool(found.st_mode & 0o222) and os.access(path, os.W_OK)


def _make_like(descriptor: int, target: Path, before: os.stat_result) -> None:
    with contextlib.suppress(PermissionError):  # another's file, which a group may write: it becomes ours
        os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
    with contextlib.suppress(OSError):  # a file system that has none
        for name in os.listxattr(target):
            with contextlib.suppress(OSError):  # one that only root may set
                os.setxattr(descriptor, name, os.getxattr(target, name))


@contextlib.contextmanager
def _one_at_a_time(directory: Path) -> Iterator[None]:
    """Hold the directory against other processes that change a file there in this way; the kernel lets go of it."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _in_the_place_of(path: Path, mode: int, put: Callable[[Path, Path], object] = os.replace) -> Iterator[BinaryIO]:
    """Open a new file in the same directory; it is put in the place of `path` when the block ends well, else removed."""
    partial = path.with_name(f".new-{os.getpid()}-{secrets.token_hex(4)}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
        put(partial, path)
    finally:
        partial.unlink(missing_ok=True)
