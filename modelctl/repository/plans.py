"""Read the TensorRT version that built a plan from its header."""

from __future__ import annotations

import struct
from pathlib import Path

TAG = b"ftrt"
HEADER_BYTES = 28
"""TensorRT's own `trtexec --getPlanVersionOnly` reads this header of plans of 8.6 and newer: `printPlanVersion` in
https://github.com/NVIDIA/TensorRT/blob/main/samples/common/sampleEngines.cpp."""


def is_plan(path: Path) -> bool:
    """Return whether a file begins like plans of TensorRT 8.6 and newer. Raises OSError."""
    with path.open("rb") as file:
        return file.read(HEADER_BYTES).startswith(TAG)


def built_with(path: Path) -> str | None:
    """Return the TensorRT version (`10.16.0.72`) that built a plan. None for another file or another header format.

    Raises OSError.
    """
    with path.open("rb") as file:
        header = file.read(HEADER_BYTES)
    if len(header) < HEADER_BYTES or not header.startswith(TAG) or struct.unpack_from("<I", header, 4) != (0,):
        return None
    version = tuple(header[24:28])
    return ".".join(map(str, version)) if version[0] else None
