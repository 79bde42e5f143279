"""The limits of the ONNX backend of each Triton release: docs/facts/triton-configuration.md#onnx."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class OnnxRuntime:
    """A version of ONNX Runtime: the newest operator sets that it reads, by domain, and the newest version of the format."""

    version: str
    opsets: Mapping[str, int]
    ir_version: int


_1_24 = OnnxRuntime("1.24.4", {"ai.onnx": 25, "ai.onnx.ml": 5}, 13)
_1_27 = OnnxRuntime("1.27.0", {"ai.onnx": 26, "ai.onnx.ml": 5}, 13)
ONNX_RUNTIMES: Mapping[str, OnnxRuntime] = {"26.04": _1_24, "26.05": _1_24, "26.06": _1_24, "26.07": _1_27}
"""By the releases of spec/versions.py."""
