"""The values of Helm charts that people edit: where they lie, reading them, laying one layer over another.

Paths are relative to the folder of Pulumi.yaml, unless a function is given the checkout: the engine makes that folder the
working directory, and an absolute path would put the machine's folders into the state, where every other machine would see
a change.
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
    """Return the path of a chart of ours, as Helm takes a path: beginning with a dot."""
    return f"./{_CHARTS / chart}"


def folder(chart: str) -> Path:
    """Return the folder of a chart's values."""
    return _VALUES / chart


def value_files(chart: str, environment: str, checkout: Path = Path()) -> list[Path]:
    """Return the files of a chart's values, later ones on top: `base.yaml`, then the environment's if it has one.

    Raises SettingsError for a file of any other name, which would have no effect.
    """
    for path in sorted((checkout / folder(chart)).iterdir()):
        if path.name not in _FILES:
            raise SettingsError(
                str(folder(chart) / path.name), [Problem("the file", f"has no effect; use {one_of(_FILES)}")]
            )
    overlay = folder(chart) / f"{environment}.yaml"
    return [folder(chart) / "base.yaml", *([overlay] if (checkout / overlay).is_file() else [])]


def value_layers(chart: str, environment: str) -> dict[str, dict[str, Any]]:
    """Read the values of a chart, by the path of the file that holds them. Raises SettingsError, which names the file."""
    return {str(path): read(path) for path in value_files(chart, environment)}


def base_values(chart: str, checkout: Path = Path()) -> dict[str, Any]:
    """Read `helm-values/<chart>/base.yaml`. Raises SettingsError.

    For `helm.v3.Release`, whose values are all that a preview shows of it: read here, each of them is shown.
    """
    return read(checkout / folder(chart) / "base.yaml")


def default_values(chart: str) -> dict[str, Any]:
    """Read the values that a chart of ours has without any file of `helm-values`."""
    return read(_CHARTS / chart / "values.yaml")


def rendered_values(chart: str, environment: str, checkout: Path) -> dict[str, Any]:
    """Read the values that a chart of ours is rendered with in an environment: its defaults under the layers of people.

    What the program computes is not among them. Raises SettingsError.
    """
    files = [_CHARTS / chart / "values.yaml", *value_files(chart, environment, checkout)]
    return merge(*(read(checkout / file) for file in files))


def read(path: Path) -> dict[str, Any]:
    """Read one file of values, in the dialect of stack files. Raises SettingsError, which names the file."""
    try:
        values = yaml_reader.read(reading.file(path, yaml_reader.LARGEST_BYTES)).value
    except Unreadable as error:
        raise SettingsError(str(path), [Problem(error.place or "the file", error.problem)]) from None
    if not isinstance(values, dict | None):
        raise SettingsError(str(path), [Problem("the file", f"holds a {type(values).__name__}; give a mapping of values")])
    return values or {}


def merge(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Merge values as Helm merges several value files: mappings key by key, everything else replaced, later ones on top.

    The layers stay untouched. A `null` is kept: over a chart's default it removes the key.
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
    """Return the value at a dotted path like `resources.requests.cpu`; None where there is none."""
    found: Any = values
    for key in path.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found
