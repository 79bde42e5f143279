"""User-defined values of Helm charts: their paths, reading them and merging layers.

Paths are relative to the folder of Pulumi.yaml, the engine's working directory, unless the caller passes the checkout. An
absolute path would put this machine's folders into the state, and every other machine would see a change.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spec import reading, yaml_reader
from spec.problem import Problem, SettingsError
from spec.reading import Unreadable
from spec.stack_names import ENVIRONMENTS
from spec.wording import one_of

_VALUES = Path("helm-values")
_CHARTS = Path("charts")
_FILES = tuple(f"{layer}.yaml" for layer in ("base", *ENVIRONMENTS))


def local_chart(chart: str) -> str:
    """Return the path of one of our charts in Helm's form, beginning with a dot."""
    return f"./{_CHARTS / chart}"


def folder(chart: str) -> Path:
    """Return the folder of a chart's values."""
    return _VALUES / chart


def value_files(chart: str, environment: str, checkout: Path = Path()) -> list[Path]:
    """Return the files of a chart's values, later ones on top: `base.yaml`, then the environment's file if it exists.

    Raises SettingsError for a file with any other name, because it would have no effect.
    """
    for path in sorted((checkout / folder(chart)).iterdir()):
        if path.name not in _FILES:
            raise SettingsError(
                str(folder(chart) / path.name), [Problem("the file", f"has no effect; use {one_of(_FILES)}")]
            )
    overlay = folder(chart) / f"{environment}.yaml"
    return [folder(chart) / "base.yaml", *([overlay] if (checkout / overlay).is_file() else [])]


def value_layers(chart: str, environment: str) -> dict[str, dict[str, Any]]:
    """Read the values of a chart, by file path. Raises SettingsError, which names the file."""
    return {str(path): read(path) for path in value_files(chart, environment)}


def base_values(chart: str, checkout: Path = Path()) -> dict[str, Any]:
    """Read `helm-values/<chart>/base.yaml`. Raises SettingsError.

    Used for `helm.v3.Release`: a preview shows only the values passed to it, so all values are read here.
    """
    return read(checkout / folder(chart) / "base.yaml")


def default_values(chart: str) -> dict[str, Any]:
    """Read the default values of one of our charts, without the files in `helm-values`."""
    return read(_CHARTS / chart / "values.yaml")


def rendered_values(chart: str, environment: str, checkout: Path) -> dict[str, Any]:
    """Read the values of one of our charts in an environment: its defaults, then the files in `helm-values`.

    Values that the program computes are not included. Raises SettingsError.
    """
    files = [_CHARTS / chart / "values.yaml", *value_files(chart, environment, checkout)]
    return merge(*(read(checkout / file) for file in files))


def read(path: Path) -> dict[str, Any]:
    """Read one values file, in the YAML dialect of stack files. Raises SettingsError, which names the file."""
    try:
        values = yaml_reader.read(reading.file(path, yaml_reader.LARGEST_BYTES)).value
    except Unreadable as error:
        raise SettingsError(str(path), [Problem(error.place or "the file", error.problem)]) from None
    if not isinstance(values, dict | None):
        raise SettingsError(str(path), [Problem("the file", f"holds a {type(values).__name__}; give a mapping of values")])
    return values or {}


def merge(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Merge values like Helm merges value files: mappings key by key, other values replaced, later layers on top.

    The layers are not changed. A `null` is kept, because it removes the key from a chart's defaults.
    """
    result: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            below = result.get(key)
            if isinstance(value, Mapping):
                result[key] = merge(below if isinstance(below, Mapping) else {}, value)
            else:
                result[key] = value
    return result


def value_at(values: Mapping[str, Any], path: str) -> Any:
    """Return the value at a dotted path like `resources.requests.cpu`; None if it does not exist."""
    found: Any = values
    for key in path.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found
