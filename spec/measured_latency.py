"""Measured latencies of the models of `make models` on a GPU, from a record of `benchmarks/gpu.py` with sequential requests.

A test compares this table with the record.
"""

from collections.abc import Mapping
from dataclasses import dataclass

RECORD = "benchmarks/results/gpu-2026-11-26-dbe5deac.json"
GPU = "NVIDIA H200"
COMPUTE_CAPABILITY = 9.0
"""The compute capability of that GPU. No GPU of this or an older generation is faster than an H200."""


@dataclass(frozen=True)
class Largest:
    """The largest measured request of a model, and its p95 latency in ms."""

    shape: tuple[int, ...]
    p95_ms: float


LARGEST: Mapping[str, Largest] = {
    "filetype": Largest((16, 2048), 2.62),
    "text_detection": Largest((1, 3, 2016, 2016), 311.17),
    "text_direction": Largest((8, 3, 48, 192), 4.83),
    "text_recognition": Largest((8, 3, 48, 2000), 235.32),
}
"""By model. A stack that serves all of these models serves the measured ones."""
