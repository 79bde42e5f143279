"""The TensorRT version that a plan was built with, as its header says it."""

from __future__ import annotations

import struct
from pathlib import Path

TAG = b"ftrt"
HEADER_BYTES = 28
"""TensorRT's own `trtexec --getPlanVersionOnly` reads them, of plans of 8.6 and newer: `printPlanVersion` of
https://github.com/NVIDIA/TensorRT/blob/main/samples/common/sampleEngines.cpp."""


def is_plan(path: Path) -> bool:
    """Return whether a file begins as plans of TensorRT 8.6 and newer do. Raises OSError."""
    with path.open("rb") as file:
        return file.read(HEADER_BYTES).startswith(TAG)


def built_with(path: Path) -> str | None:
    """Return the version (`10.16.0.72`) that built a plan; None for another file, and for a header of another form.

    Raises OSError.
    """
    with path.open("rb") as file:
        header = file.read(HEADER_BYTES)
    if len(header) < HEADER_BYTES or not header.startswith(TAG) or struct.unpack_from("<I", header, 4) != (0,):
        return None
    version = tuple(header[24:28])
    return ".".join(map(str, version)) if version[0] else None
