"""Latencies that the models of `make models` had on a GPU, one request after another, from a record of `benchmarks/gpu.py`.

A test compares this table with the record.
"""

from collections.abc import Mapping
from dataclasses import dataclass

RECORD = "benchmarks/results/gpu-2026-11-26-dbe5deac.json"
GPU = "NVIDIA H200"
COMPUTE_CAPABILITY = 9.0
"""Of that GPU. No GPU of this or an older generation is faster than an H200."""


@dataclass(frozen=True)
class Largest:
    """The largest request of a model, and the time in ms in which 95 % of them were answered."""

    shape: tuple[int, ...]
    p95_ms: float


LARGEST: Mapping[str, Largest] = {
    "filetype": Largest((16, 2048), 2.62),
    "text_detection": Largest((1, 3, 2016, 2016), 311.17),
    "text_direction": Largest((8, 3, 48, 192), 4.83),
    "text_recognition": Largest((8, 3, 48, 2000), 235.32),
}
"""By model. A stack that serves all of these serves the models that were measured."""
