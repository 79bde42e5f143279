"""How long things take in an environment: from the values that its pods are rendered with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from spec.helm_values import rendered_values
from spec.names import TRITON_CHART
from spec.settings.model import Settings

NODE_START_SECONDS = 240
"""From a pod that no node can hold to a node that pulls its image. An assumption, not measured on AWS."""

_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Timing:
    """Seconds. `start`: the longest that a pod may take to get its release and load it; `fetch`: those of it that go by
    before its server starts; `longest_batch`: one execution.
    """

    start: int
    fetch: int
    longest_batch: int


def timing(settings: Settings) -> Timing:
    """Return a stack's times. `start` is the chart's own arithmetic (`triton.fetchSeconds` and `triton.startupSeconds`).

    A test compares the two.
    """
    values = rendered_values(TRITON_CHART, settings.environment, _ROOT)
    startup, release = values["startup"], settings.models.release
    start, fetch = startup["minimumSeconds"], 0
    if release is not None:
        size, in_place, local = release.bytes, settings.triton.rollout == "in-place", settings.models.access == "local"
        if in_place:
            size = 1 << (size - 1).bit_length() if size else 0
        download = -(-size // startup["bytesPerSecond"])
        builds = settings.models.engine_builds(settings.triton.gpus)
        load = startup["secondsPerModel"] * len(release.models) + startup["secondsPerEngine"] * builds
        # The startup probe begins when the release is fetched; both are, amid a rollout in place.
        fetch = download * (2 if in_place else 1) if local else 0
        start = fetch + max(start, load if local else download + load)
    return Timing(start=start, fetch=fetch, longest_batch=values["drain"]["longestBatchSeconds"])


def start_seconds(settings: Settings) -> int:
    """Return the seconds from a pod that is wanted to one that serves: measured where the stack says so.

    Else the time that the startup probe gives a pod to load its models (the chart's own arithmetic), which is the longest
    that it takes and not the usual one, and the start of a node where pods may have to wait for one.
    """
    bounds = settings.autoscaling
    if bounds is not None and bounds.start_seconds is not None:
        return bounds.start_seconds
    return timing(settings).start + (NODE_START_SECONDS if settings.node_autoscaler != "none" else 0)


def pod_start_seconds(settings: Settings) -> int:
    """Return the part of `start_seconds` that a pod takes on a node that is there already.

    A measured start is divided between node and pod as the assumed one is.
    """
    whole = start_seconds(settings)
    if settings.node_autoscaler == "none":
        return whole
    return whole - round(whole * NODE_START_SECONDS / (NODE_START_SECONDS + timing(settings).start))
