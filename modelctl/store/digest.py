"""Hash uploads: the sha-256 of the whole content, and the checksum that S3 will report for it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_PARTS = 10_000
"""S3's limit on the parts of one upload."""

_READ_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Digest:
    """`sha256` in hex and `bytes` describe the content; `s3_checksum` is base64 as in S3's ChecksumSHA256.

    For an object in parts, S3 stores the sha-256 of the parts' sha-256, so it depends on `part_bytes`.
    """

    sha256: str
    bytes: int
    s3_checksum: str
    part_bytes: int


def digest(source: Path | bytes, part_bytes: int, on_bytes: Callable[[int], None] = lambda _: None) -> Digest:
    """Read the source once and hash it. `on_bytes` gets the size of each piece. Raises OSError."""
    size = source.stat().st_size if isinstance(source, Path) else len(source)
    part_bytes = _fitting(part_bytes, size)
    whole, parts, part, in_part, total = hashlib.sha256(), hashlib.sha256(), hashlib.sha256(), 0, 0
    for piece in _pieces(source):
        whole.update(piece)
        total += len(piece)
        on_bytes(len(piece))
        view = memoryview(piece)
        while view:
            head, view = view[: part_bytes - in_part], view[part_bytes - in_part :]
            part.update(head)
            in_part += len(head)
            if in_part == part_bytes:
                parts.update(part.digest())
                part, in_part = hashlib.sha256(), 0
    if in_part:
        parts.update(part.digest())
    stored = parts if total >= part_bytes else whole
    return Digest(whole.hexdigest(), total, base64.b64encode(stored.digest()).decode(), part_bytes)


def _fitting(part_bytes: int, size: int) -> int:
    while size > part_bytes * MAX_PARTS:
        part_bytes *= 2
    return part_bytes


def _pieces(source: Path | bytes) -> Iterator[bytes]:
    if isinstance(source, bytes):
        yield source
        return
    with source.open("rb") as file:
        while piece := file.read(_READ_BYTES):
            yield piece
