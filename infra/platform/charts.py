"""The value files of a chart as assets that the engine hands to Helm; the values themselves are `spec.helm_values`."""

from __future__ import annotations

import pulumi

from spec import helm_values
from spec.helm_values import base_values, default_values, local_chart, merge, value_layers

__all__ = ["base_values", "default_values", "local_chart", "merge", "value_files", "value_layers"]


def value_files(chart: str, environment: str) -> list[pulumi.FileAsset]:
    """Return the values of `chart` that people edit, later ones on top: `base.yaml`, then the environment's."""
    return [pulumi.FileAsset(path) for path in helm_values.value_files(chart, environment)]
