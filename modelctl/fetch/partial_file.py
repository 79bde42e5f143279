"""A file that is being downloaded. A journal of its finished parts survives a killed process.

The journal only saves downloads. Whether the file is right is decided by the hash over the whole file on the disk.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from modelctl.store.manifest import ObjectEntry

PART_BYTES = 8 * 1024 * 1024
"""The size of a part, which is one request: AWS advises 8 to 16 MiB
(https://docs.aws.amazon.com/whitepapers/latest/s3-optimizing-performance-best-practices/use-byte-range-fetches.html)."""
PIECE_BYTES = 1024 * 1024
"""The maximum that a thread holds in memory."""
_ARRIVED = b"\1"


@dataclass(frozen=True)
class Part:
    """Bytes `first` to `end` of a file, without the byte at `end`."""

    number: int
    first: int
    end: int


class PartialFile:
    """The file of `key` at `path`, with a byte for each of its parts in `journal`. Methods raise OSError."""

    def __init__(self, key: str, entry: ObjectEntry, path: Path, journal: Path) -> None:
        self.key = key
        self.entry = entry
        self.path = path
        self._journal = journal
        self._arrived = bytearray(math.ceil(entry.bytes / PART_BYTES))
        self.resumed = False

    def open(self) -> None:
        """Create the file in its full size, or resume an earlier process's file."""
        for file in (self.path, self._journal):
            file.parent.mkdir(parents=True, exist_ok=True)
        if has_size(self.path, self.entry.bytes) and self._journal.is_file():
            arrived = self._journal.read_bytes()
            if len(arrived) == len(self._arrived):
                self._arrived = bytearray(arrived)
                self.resumed = any(arrived)
                return
        self.begin_again()

    def begin_again(self) -> None:
        """Discard all data and start again."""
        self._arrived = bytearray(len(self._arrived))
        self.resumed = False
        self._journal.write_bytes(self._arrived)
        # The file may be a hard link to another release's file, which a server reads.
        self.path.unlink(missing_ok=True)
        with self.path.open("wb") as file:
            file.truncate(self.entry.bytes)

    def trust(self) -> None:
        """Mark all parts of an existing file as arrived; the hash then verifies it."""
        self._arrived = bytearray(_ARRIVED * len(self._arrived))
        self._journal.parent.mkdir(parents=True, exist_ok=True)
        self._journal.write_bytes(self._arrived)

    def parts(self) -> list[Part]:
        """Return all parts, in order."""
        starts = range(0, self.entry.bytes, PART_BYTES)
        return [Part(number, at, min(at + PART_BYTES, self.entry.bytes)) for number, at in enumerate(starts)]

    def has(self, part: Part) -> bool:
        """Return whether the part has arrived."""
        return bool(self._arrived[part.number])

    def has_next(self, number: int, count: int) -> bool:
        """Return whether `count` parts from this number on, or up to the last, have arrived."""
        return all(self._arrived[number : number + count])

    @property
    def arrived_bytes(self) -> int:
        """Return how many bytes have arrived."""
        return sum(part.end - part.first for part in self.parts() if self.has(part))

    def write(self, part: Part, pieces: Iterator[bytes]) -> None:
        """Write a part; it counts as arrived when its last piece is written."""
        file = os.open(self.path, os.O_WRONLY)
        try:
            at = part.first
            for piece in pieces:
                view = memoryview(piece)
                while view:
                    written = os.pwrite(file, view, at)
                    at, view = at + written, view[written:]
        finally:
            os.close(file)
        journal = os.open(self._journal, os.O_WRONLY)
        try:
            os.pwrite(journal, _ARRIVED, part.number)
        finally:
            os.close(journal)
        self._arrived[part.number] = _ARRIVED[0]

    def sha256(self, until_it_has: Callable[[Part], bool], on_bytes: Callable[[int], None]) -> str | None:
        """Return the hash of the file on the disk, read as its parts arrive.

        `until_it_has` waits for a part and returns whether it has arrived; if not, this returns None.
        """
        digest, buffer = hashlib.sha256(), memoryview(bytearray(PIECE_BYTES))
        with self.path.open("rb", buffering=0) as file:
            for part in self.parts():
                if not until_it_has(part):
                    return None
                left = part.end - part.first
                while left and (size := file.readinto(buffer[: min(left, PIECE_BYTES)])):
                    digest.update(buffer[:size])
                    on_bytes(size)
                    left -= size
        return digest.hexdigest()


def has_size(path: Path, size: int) -> bool:
    """Return whether the file exists with this size."""
    return path.is_file() and path.stat().st_size == size
