"""Where the Kubernetes client keeps the keys of a kubeconfig for as long as it runs: TLS takes them from files only.

The client removes them when the process ends. A process that is killed cannot, so they lie in a directory that the next one
recognizes as nobody's, by a lock that ends with its holder, and removes.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

PREFIX = "modelctl-keys-"


@cache
def directory() -> Path:
    """Return this process's directory, for its user alone; those of killed processes of the user are removed."""
    _remove_abandoned()
    path, lock = _locked()
    # `lock` stays open, and held, as long as the process lives; a program that it starts does not inherit it.
    atexit.register(_remove, path, lock)
    return path


def _locked() -> tuple[Path, int]:
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = os.open(path, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.is_dir():
            return path, lock
        os.close(lock)  # another process took it for abandoned before it was locked


def _remove_abandoned() -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            # No link is followed: others may write where temporary files are.
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:  # somebody else's, or gone by now
            continue
        try:
            if os.fstat(lock).st_uid == os.geteuid():
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
        except BlockingIOError:  # its process runs
            pass
        finally:
            os.close(lock)


def _remove(path: Path, lock: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    os.close(lock)
