"""Grafana dashboards of the platform, as data: the models, the GPUs and the size of the fleet."""

from __future__ import annotations

from infra.platform.dashboards.board import Dashboard
from infra.platform.dashboards.gpus import gpus
from infra.platform.dashboards.inference import inference
from infra.platform.dashboards.scaling import scaling
from spec.settings.model import Settings

__all__ = ["FOLDER", "Dashboard", "dashboards"]

FOLDER = "Triton"
"""The Grafana folder of the dashboards."""


def dashboards(settings: Settings) -> list[Dashboard]:
    """Return the dashboards of a stack in Grafana's import format."""
    return [inference(settings), gpus(), scaling([fleet.release for fleet in settings.each_fleet])]
