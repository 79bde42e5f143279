"""A directory for the kubeconfig's key files while the process runs. TLS reads keys only from files.

The client removes the files when the process exits. A killed process cannot, so the directory has a lock that ends with its
holder. The next process finds directories without a held lock and removes them.
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
    """Return this process's directory, private to its user; remove directories of the user's killed processes."""
    _remove_abandoned()
    path, lock = _locked()
    # `lock` stays open, and held, as long as the process lives; child programs do not inherit it.
    atexit.register(_remove, path, lock)
    return path


def _locked() -> tuple[Path, int]:
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = os.open(path, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.is_dir():
            return path, lock
        os.close(lock)  # another process removed it as abandoned before it was locked


def _remove_abandoned() -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            # Links are not followed, because others can write to the directory of temporary files.
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:  # another user's, or already removed
            continue
        try:
            if os.fstat(lock).st_uid == os.geteuid():
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
        except BlockingIOError:  # its process is running
            pass
        finally:
            os.close(lock)


def _remove(path: Path, lock: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    os.close(lock)
