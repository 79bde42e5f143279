"""The listening sockets of processes, as the kernel reports them."""

from __future__ import annotations

from pathlib import Path


def listening(pid: int) -> set[str]:
    """Return local addresses of a process's listening TCP sockets in /proc format: `0100007F:1F90`."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(descriptor.readlink())
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    rows = [
        line.split() for table in ("tcp", "tcp6") for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
    ]
    return {row[1] for row in rows if row[3] == "0A" and row[9] in inodes}
