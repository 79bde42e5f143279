"""Helm values: where they lie, and how the parts of one chart's values come together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pulumi
import yaml

from spec.settings import Problem, SettingsError

# Relative to the folder of Pulumi.yaml, which the engine makes the working directory: an absolute path would put
# the machine's folders into the state, and every other machine would see a change.
_VALUES = Path("helm-values")
_CHARTS = Path("charts")


def local_chart(chart: str) -> str:
    """The path of a chart of ours, as Helm takes a path: beginning with a dot."""
    return f"./{_CHARTS / chart}"


def value_files(chart: str, environment: str) -> list[pulumi.FileAsset]:
    """The values of `chart` that people edit, later ones on top: `base.yaml`, then the environment's."""
    return [pulumi.FileAsset(path) for path in _layers(chart, environment)]


def value_layers(chart: str, environment: str) -> dict[str, dict[str, Any]]:
    """The same values as data, by the path of the file that holds them."""
    return {str(path): _read(path) for path in _layers(chart, environment)}


def default_values(chart: str) -> dict[str, Any]:
    """Return the values that a chart of ours has without any file of `helm-values`."""
    return _read(_CHARTS / chart / "values.yaml")


def _layers(chart: str, environment: str) -> list[Path]:
    return [_VALUES / chart / f"{layer}.yaml" for layer in ("base", environment)]


def _read(path: Path) -> dict[str, Any]:
    """The values in one file. Raises SettingsError, which names the file, for what is no YAML or no mapping."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "the file"
        raise SettingsError(str(path), [Problem(where, f"{error.problem}; give valid YAML")]) from None
    if not isinstance(values, dict | None):
        raise SettingsError(str(path), [Problem("the file", f"holds a {type(values).__name__}; give a mapping of values")])
    return values or {}


def base_values(chart: str) -> dict[str, Any]:
    """`helm-values/<chart>/base.yaml` as data.

    For `helm.v3.Release`, whose values are all that a preview shows of it: read here, each of them is shown.
    """
    return _read(_VALUES / chart / "base.yaml")


def merge(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """`overlay` on `base` as Helm does it: mappings key by key, everything else replaced."""
    merged = dict(base)
    for key, value in overlay.items():
        under = merged.get(key)
        if isinstance(under, Mapping) and isinstance(value, Mapping):
            merged[key] = merge(under, value)
        else:
            merged[key] = value
    return merged
