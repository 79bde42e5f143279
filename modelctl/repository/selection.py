"""Read `release.yaml`: the versions of each model that a release serves.

Normally a release has one version per model, since the server downloads every version below a prefix, once per served
version. If a model has a list, all its versions are served, and a request without a version gets the highest. Models that
the file does not name are served in their highest version.

The key `backends` names the server image's backends that are not NVIDIA's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from modelctl.repository.backends import DEFAULT_MODEL_FILES
from modelctl.repository.problems import Problem
from spec import reading, yaml_reader
from spec.reading import Unreadable

RELEASE_FILE = "release.yaml"
_KEYS = ("versions", "backends")
_BACKEND = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass
class Selection:
    """The versions in release.yaml by model, and the image's backends that are not NVIDIA's."""

    path: Path
    versions: dict[str, tuple[int, ...]] = field(default_factory=dict)
    backends: frozenset[str] = frozenset()
    problems: list[Problem] = field(default_factory=list)

    def versions_of(self, model: str, available: Sequence[int], problems: list[Problem]) -> tuple[int, ...]:
        """Return the versions of `model` to release, in order. Empty, with a problem for each, if any is missing."""
        if not available:
            return ()
        wanted = self.versions.get(model, (max(available),))
        missing = [version for version in wanted if version not in available]
        there = ", ".join(map(str, available))
        problems += [Problem(self.path, f"versions.{model}: there is no version {v}; there is {there}") for v in missing]
        return () if missing else wanted


def read_selection(models_dir: Path, models: Sequence[str]) -> Selection:
    """Return the selection in `models_dir`; empty if it has no release.yaml."""
    selection = Selection(models_dir / RELEASE_FILE)
    if not selection.path.exists() and not selection.path.is_symlink():
        return selection
    try:
        content = yaml_reader.read(reading.file(selection.path)).value
    except Unreadable as error:
        selection.problems.append(Problem(selection.path, error.problem, error.line, error.column))
        return selection
    if content is None:
        return selection
    if not isinstance(content, dict):
        selection.problems.append(Problem(selection.path, "not a mapping; write versions: {<model>: <version>}"))
        return selection
    for key in content:
        if key not in _KEYS:
            selection.problems.append(Problem(selection.path, f"{key}: unknown key; there are {' and '.join(_KEYS)}"))
    selection.backends = _backends(content.get("backends"), selection)
    versions = {} if content.get("versions") is None else content["versions"]
    if not isinstance(versions, dict):
        selection.problems.append(Problem(selection.path, "versions: not a mapping of model to version"))
        return selection
    for model, version in versions.items():
        if model not in models:
            known = ", ".join(models) or "none"
            message = f"versions.{model}: there is no such model; models: {known}"
            selection.problems.append(Problem(selection.path, message))
        elif mistake := _mistake(version):
            selection.problems.append(Problem(selection.path, f"versions.{model}: {mistake}"))
        else:
            selection.versions[model] = tuple(sorted(version)) if isinstance(version, list) else (version,)
    return selection


def _backends(given: object, selection: Selection) -> frozenset[str]:
    """Return the names under `backends`, and record their problems."""
    if given is None:
        return frozenset()
    if not isinstance(given, list) or not given:
        selection.problems.append(Problem(selection.path, "backends: not a list of names; write [<name>], or remove it"))
        return frozenset()
    for index, name in enumerate(given):
        if not isinstance(name, str) or not _BACKEND.fullmatch(name):
            message = f"backends[{index}]: {name!r} is no name of a backend; its library is libtriton_<name>.so"
            selection.problems.append(Problem(selection.path, message))
        elif name in DEFAULT_MODEL_FILES:
            selection.problems.append(Problem(selection.path, f"backends[{index}]: {name} is NVIDIA's own; remove it"))
        elif name in given[:index]:
            selection.problems.append(Problem(selection.path, f"backends[{index}]: {name} is listed twice; list it once"))
    return frozenset(name for name in given if isinstance(name, str))


def _mistake(given: object) -> str | None:
    """Return the mistake in a version or a list of versions. None if it is right."""
    if given == []:
        return "an empty list; give at least one version, or leave the model out for its highest"
    versions = given if isinstance(given, list) else [given]
    for version in versions:
        if type(version) is not int or version < 1:
            return f"{version!r} is no version; a whole number from 1, or a list of them"
    if len(set(versions)) < len(versions):
        return f"{given} names a version twice"
    return None
