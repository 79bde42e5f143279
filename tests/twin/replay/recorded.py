"""Recordings of a real KEDA, HorizontalPodAutoscaler and Prometheus at work, and the times that they had."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spec.prometheus.recording import BUSY
from spec.prometheus.rule import SCALING_WINDOW_SECONDS, TRITON_SCRAPE_SECONDS

FOLDER = Path(__file__).parent / "recordings"
NAMES = sorted(file.stem for file in FOLDER.glob("*.json"))
REJECTED = "nv_inference_request_failure"


@dataclass(frozen=True)
class Times:
    """Seconds from a scrape, an evaluation, a question to the next one, and of the window of rates.

    `busy`: the series that is asked for. `averages`: what waits is asked for as its mean over the window, not as the newest.
    """

    every: int
    window: int
    busy: str
    averages: bool


NEEDED = "pod_model:triton_needed_instances:rate30s"
"""As it was called when they were recorded, now `spec.prometheus.recording.NEEDED`."""
OLDER = Times(15, 60, BUSY, averages=False)
PRESENT = Times(TRITON_SCRAPE_SECONDS, SCALING_WINDOW_SECONDS, NEEDED, averages=True)


def read(name: str) -> Any:
    """Return a recording of `benchmarks/autoscaler_recording.py`."""
    return json.loads((FOLDER / f"{name}.json").read_text())


def times(recording: Any) -> Times:
    """Return the times of a recording, by what KEDA asked."""
    asked = "".join(trigger["metadata"]["query"] for trigger in recording["scaledObject"]["triggers"])
    (found,) = [one for one in (OLDER, PRESENT) if one.busy in asked]
    return found
