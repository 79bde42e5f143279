"""Write files so that a reader sees the old content or the new one, never a part. The standard library is all it needs."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
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


def rewrite(path: Path, content: bytes) -> None:
    """Write a person's file, making it and its directory when absent.

    Of a file that is there, the mode, the owner and the extended attributes stay. A symbolic link stays one, and what it
    leads to is written. A device or pipe (/dev/stdout) is written to. Raises NotWritten.
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
        with _in_the_place_of(target, _NEW_FILE if before is None else 0o600) as stream:
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
def _in_the_place_of(path: Path, mode: int) -> Iterator[BinaryIO]:
    """Open a new file in the same directory; it replaces `path` when the block ends well, and is removed otherwise."""
    partial = path.with_name(f".new-{os.getpid()}-{secrets.token_hex(4)}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
