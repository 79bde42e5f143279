"""Recordings of a real KEDA, HorizontalPodAutoscaler and Prometheus, with their times."""

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
    """Seconds between scrapes, evaluations and polls, and of the rates' window.

    `busy`: the queried series. `averages`: waiting requests are queried as their mean over the window, not as the newest
    value.
    """

    every: int
    window: int
    busy: str
    averages: bool


NEEDED = "pod_model:triton_needed_instances:rate30s"
"""Its name when they were recorded, now `spec.prometheus.recording.NEEDED`."""
OLDER = Times(15, 60, BUSY, averages=False)
PRESENT = Times(TRITON_SCRAPE_SECONDS, SCALING_WINDOW_SECONDS, NEEDED, averages=True)


def read(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text())


def times(recording: Any) -> Times:
    """Return the times of a recording, by KEDA's queries."""
    asked = "".join(trigger["metadata"]["query"] for trigger in recording["scaledObject"]["triggers"])
    (found,) = [one for one in (OLDER, PRESENT) if one.busy in asked]
    return found
