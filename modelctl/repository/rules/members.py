"""Find archive members that would be written outside the target folder, or that link out of it.

A pod unpacks a model's archive without checks: the python backend's libarchive writes `../` and absolute names as they are
(https://github.com/triton-inference-server/python_backend/blob/0192ff5/src/pb_env.cc).
"""

from __future__ import annotations

import stat
import tarfile
import zipfile
from pathlib import PurePosixPath

_LONGEST_TARGET = 4096
_OF_THE_IMAGE = ("/usr/", "/opt/")
"""Directories of the image that hold the interpreter of a virtual environment built in it."""


class TarMembers:
    """Checks the members of one tar archive, in their order, for paths that lead out."""

    def __init__(self) -> None:
        self._out: set[PurePosixPath] = set()

    def mistake(self, member: tarfile.TarInfo) -> str | None:
        """Return the mistake in the next member; None if it stays inside."""
        name = PurePosixPath(member.name)
        if _climbs(name):
            return f"its member {_shown(member.name)} would be written outside of the folder that it is unpacked in"
        if member.ischr() or member.isblk() or member.isfifo():
            return f"its member {_shown(member.name)} is a device or a pipe"
        if below := next((parent for parent in name.parents if parent in self._out), None):
            return f"its member {_shown(member.name)} would be written outside, through the link {_shown(str(below))}"
        if member.islnk() and _climbs(PurePosixPath(member.linkname)):
            return f"its member {_shown(member.name)} is a link to {_shown(member.linkname)}, out of the archive"
        if member.issym():
            return self._symbolic(name, member.linkname)
        return None

    def _symbolic(self, name: PurePosixPath, to: str) -> str | None:
        if not _climbs(name.parent / to):
            return None
        self._out.add(name)
        if to.startswith(_OF_THE_IMAGE) and ".." not in PurePosixPath(to).parts:
            return None
        return f"its member {_shown(str(name))} is a link to {_shown(to)}, out of the archive"


def mistake_of_zip(archive: zipfile.ZipFile) -> str | None:
    """Return the first member of a zip archive that leads out. None if all stay inside."""
    for member in archive.infolist():
        name = PurePosixPath(member.filename)
        if _climbs(name):
            return f"its member {_shown(member.filename)} would be written outside of the folder that it is unpacked in"
        if stat.S_ISLNK(member.external_attr >> 16) and member.file_size <= _LONGEST_TARGET:
            to = archive.read(member).decode(errors="replace")
            if _climbs(name.parent / to):
                return f"its member {_shown(member.filename)} is a link to {_shown(to)}, out of the archive"
    return None


def _climbs(path: PurePosixPath) -> bool:
    """Return whether a path is absolute, or has more `..` than preceding folders."""
    depth = 0
    for part in path.parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return path.is_absolute()


def _shown(name: str) -> str:
    return repr(name if len(name) <= 100 else f"{name[:97]}…")
