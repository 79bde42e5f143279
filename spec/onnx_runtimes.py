"""The limits of the ONNX backend in each Triton release: docs/facts/triton-configuration.md#onnx."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class OnnxRuntime:
    """A version of ONNX Runtime: the newest operator sets that it supports, by domain, and the newest IR version."""

    version: str
    opsets: Mapping[str, int]
    ir_version: int


_1_27 = OnnxRuntime("1.27.0", {"ai.onnx": 26, "ai.onnx.ml": 5}, 13)
_1_28 = OnnxRuntime("1.28.0", {"ai.onnx": 26, "ai.onnx.ml": 5}, 13)
ONNX_RUNTIMES: Mapping[str, OnnxRuntime] = {
    "26.07": _1_27,
    "26.08": _1_28,
    # Treated like 26.08, because their build.py could not be read.
    "26.09": _1_28,
    "26.10": _1_28,
    "26.11": _1_28,
}
"""By the releases of spec/versions.py."""


def onnx_runtime(release: str) -> OnnxRuntime:
    """Return the ONNX Runtime of a release; the newest one for a release that spec/versions.py lacks."""
    return ONNX_RUNTIMES.get(release, ONNX_RUNTIMES[max(ONNX_RUNTIMES)])
