"""Find and remove leftovers: scratch twins of killed commands, and files of killed Triton servers outside of a twin.

A server that exits by itself removes all of its files. In /dev/shm, the names show the owner. The directory of the Python
backend, `/tmp/python_env_XXXXXX` (fixed in its code), is empty and its name shows no owner. It is removed unless a running
process can own it.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from twin.cluster.certificates import Pki
from twin.host.home import SHARED_MEMORY, TwinHome

_ENVIRONMENTS = Path("/tmp")  # noqa: S108 - where the Python backend makes them, whatever TMPDIR says
_SERVER, _STUB = "tritonserver", "triton_python_b"
"""Names of processes (/proc/<pid>/stat has 15 characters): the server, and its Python backend's stubs."""
_SLACK_SECONDS = 2.0


@dataclass(frozen=True)
class _Process:
    pid: int
    parent: int
    name: str
    started: float


def scratch_twins(home: TwinHome) -> list[TwinHome]:
    """Return the scratch twins of commands that were killed before they could clean up."""
    return [TwinHome(path) for path in sorted((home.path / "scratch").glob("twin-*"))]


def remove(home: TwinHome) -> None:
    """Remove the leftovers of this twin's servers, which must have stopped. Files that another server may own stay."""
    for left in Path(SHARED_MEMORY).glob(f"{home.shared_memory_prefix}*"):
        left.unlink(missing_ok=True)
    oldest = Pki(home.pki).ca  # created with the twin, and never again
    if oldest.exists():
        for directory in abandoned_environments(since=oldest.stat().st_mtime):
            directory.rmdir()


def abandoned_environments(since: float) -> list[Path]:
    """Return the Python backend's empty directories since `since` (seconds since the epoch) that no running server owns.

    A server creates its directory after it has started and before it starts its first stub.
    """
    living = list(_processes())
    spans = []
    for server in (p for p in living if p.name == _SERVER):
        stubs = [p.started for p in living if p.name == _STUB and p.parent == server.pid]
        spans.append((server.started - _SLACK_SECONDS, min(stubs, default=time.time()) + _SLACK_SECONDS))
    return [
        directory
        for directory in sorted(_ENVIRONMENTS.glob("python_env_??????"))
        if _is_empty_and_ours(directory)
        and (made := directory.stat().st_mtime) >= since
        and not any(begun <= made <= until for begun, until in spans)
    ]


def _is_empty_and_ours(directory: Path) -> bool:
    try:
        return directory.stat().st_uid == os.getuid() and not any(directory.iterdir())
    except OSError:
        return False


def _processes() -> Iterator[_Process]:
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    ticks = os.sysconf("SC_CLK_TCK")
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                head, _, tail = (entry / "stat").read_text().rpartition(")")
            except OSError:
                continue
            fields = tail.split()
            yield _Process(int(entry.name), int(fields[1]), head.partition("(")[2], booted + int(fields[19]) / ticks)
