"""Durations in an environment, from the values with which its pods are rendered."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from spec.helm_values import rendered_values
from spec.names import TRITON_CHART
from spec.settings.model import Settings

NODE_START_SECONDS = 240
"""From a pod that fits on no node to a new node that pulls its image. An assumption, not measured on AWS."""

_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Timing:
    """Durations in seconds.

    `start` is the longest time in which a pod fetches and loads its release. `fetch` is the part of it before the server
    starts. `longest_batch` is the longest execution.
    """

    start: int
    fetch: int
    longest_batch: int


def timing(settings: Settings) -> Timing:
    """Return a stack's durations. `start` repeats the chart's formula (`triton.fetchSeconds` and `triton.startupSeconds`).

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
        # The startup probe begins after the fetch. During an in-place rollout, two releases are fetched.
        fetch = download * (2 if in_place else 1) if local else 0
        start = fetch + max(start, load if local else download + load)
    return Timing(start=start, fetch=fetch, longest_batch=values["drain"]["longestBatchSeconds"])


def start_seconds(settings: Settings) -> int:
    """Return the seconds from a requested pod to a serving one. The stack file's measured value has precedence.

    Otherwise it is the startup probe's limit for loading the models (the chart's formula), a maximum and not the usual time.
    If pods may have to wait for a node, the start of a node is added.
    """
    bounds = settings.autoscaling
    if bounds is not None and bounds.start_seconds is not None:
        return bounds.start_seconds
    return timing(settings).start + (NODE_START_SECONDS if settings.node_autoscaler != "none" else 0)


def pod_start_seconds(settings: Settings) -> int:
    """Return the part of `start_seconds` that a pod needs on an existing node.

    A measured start is divided between node and pod in the same ratio as the assumed one.
    """
    whole = start_seconds(settings)
    if settings.node_autoscaler == "none":
        return whole
    return whole - round(whole * NODE_START_SECONDS / (NODE_START_SECONDS + timing(settings).start))
