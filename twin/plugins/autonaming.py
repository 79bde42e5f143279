"""Generate physical names of resources that the program does not name."""

from __future__ import annotations

import hashlib


def autoname(logical: str, seed: bytes, digits: int) -> str:
    """Return ``<logical>-<hex digits>``; the same seed gives the same name.

    The engine's seed belongs to one resource in one run. So a preview shows the name that the update uses only if the engine
    repeats the seed. After that, Check takes the name from the old inputs.
    """
    return f"{logical}-{hashlib.sha256(seed + logical.encode()).hexdigest()[:digits]}"
