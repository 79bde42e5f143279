"""Refuse a machine with too little space for a twin, because on a full disk servers fail without a visible reason."""

from __future__ import annotations

import shutil
from pathlib import Path

from spec.failure import NOT_TRIED, Failure
from twin.host.home import SHARED_MEMORY, TwinHome

_MIB = 1024**2
_HOME_MIB = 300
"""The state of a running twin, its logs for a day, and a release of the sample models."""
_SHARED_MEMORY_MIB = 16
"""Each instance of a Python model takes at least 1 MiB, and more with its largest request."""


class NoRoom(Failure):
    """A file system has too little space for a twin; the text says which, and gives the remedy."""

    exit_code = NOT_TRIED


def check(home: TwinHome, shared_memory: Path = Path(SHARED_MEMORY)) -> None:
    """Raise NoRoom with all file systems that have too little space."""
    found = [
        _lack(
            home.path, _HOME_MIB, "what a twin writes", "make room there, or set TWIN_HOME to a directory on another disk"
        ),
        _lack(
            shared_memory,
            _SHARED_MEMORY_MIB,
            "what Triton shares with its Python models",
            f"`mount -o remount,size=64M {shared_memory}`, or `--shm-size 64m` for a container",
        ),
    ]
    lacks = [lack for lack in found if lack is not None]
    if lacks:
        raise NoRoom("\n".join(lacks))


def _lack(path: Path, needed: int, what: str, remedy: str) -> str | None:
    there = next(folder for folder in (path, *path.parents) if folder.exists())
    free = shutil.disk_usage(there).free // _MIB
    if free >= needed:
        return None
    return f"{path} has {free} MiB free, and {needed} MiB are needed for {what}: {remedy}"
