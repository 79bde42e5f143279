"""`release.yaml`: which versions of each model a release serves.

As a rule one per model, since the server downloads every version that lies under a prefix, once per served version. Of a
model that is given a list, all of them are served side by side, and a request that names none gets the highest. Models that
the file does not name are served in their highest version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from modelctl.repository.problems import Problem
from spec import reading, yaml_reader
from spec.reading import Unreadable

RELEASE_FILE = "release.yaml"


@dataclass
class Selection:
    """The versions that release.yaml asks for, by model."""

    path: Path
    versions: dict[str, tuple[int, ...]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def versions_of(self, model: str, available: Sequence[int], problems: list[Problem]) -> tuple[int, ...]:
        """Return the versions to release of `model`, in order; empty, and a problem for each, when one is not there."""
        if not available:
            return ()
        wanted = self.versions.get(model, (max(available),))
        missing = [version for version in wanted if version not in available]
        there = ", ".join(map(str, available))
        problems += [Problem(self.path, f"versions.{model}: there is no version {v}; there is {there}") for v in missing]
        return () if missing else wanted


def read_selection(models_dir: Path, models: Sequence[str]) -> Selection:
    """Return the selection in `models_dir`, empty when it has no release.yaml."""
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
        if key != "versions":
            selection.problems.append(Problem(selection.path, f"{key}: unknown key; the only one is versions"))
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


def _mistake(given: object) -> str | None:
    """Return what is wrong with a version, or a list of them, as it was written."""
    if given == []:
        return "an empty list; give at least one version, or leave the model out for its highest"
    versions = given if isinstance(given, list) else [given]
    for version in versions:
        if type(version) is not int or version < 1:
            return f"{version!r} is no version; a whole number from 1, or a list of them"
    if len(set(versions)) < len(versions):
        return f"{given} names a version twice"
    return None
