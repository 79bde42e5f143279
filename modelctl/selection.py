"""`release.yaml`: which version of each model a release serves.

Exactly one version per model is released, since the server downloads every version that lies under a prefix,
once per served version (research triton.md 1.10). Models that the file does not name are served in their
highest version.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError

from modelctl.problems import Problem

RELEASE_FILE = "release.yaml"


@dataclass
class Selection:
    """The versions that release.yaml asks for, by model."""

    path: Path
    versions: dict[str, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def version_of(self, model: str, available: Sequence[int], problems: list[Problem]) -> int | None:
        """The version to release of `model`; None, and a problem, when it is not there."""
        if not available:
            return None
        wanted = self.versions.get(model, max(available))
        if wanted not in available:
            there = ", ".join(map(str, available))
            problems.append(Problem(self.path, f"versions.{model}: there is no version {wanted}; there is {there}"))
            return None
        return wanted


def read_selection(models_dir: Path, models: Sequence[str]) -> Selection:
    """The selection in `models_dir`, empty when it has no release.yaml."""
    selection = Selection(models_dir / RELEASE_FILE)
    if not selection.path.exists():
        return selection
    try:
        content = YAML(typ="safe").load(selection.path)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        selection.problems.append(Problem(selection.path, f"not valid YAML: {error.problem}", line, column))
        return selection
    if content is None:
        return selection
    if not isinstance(content, dict):
        selection.problems.append(Problem(selection.path, "not a mapping; write versions: {<model>: <version>}"))
        return selection
    for key in content:
        if key != "versions":
            selection.problems.append(Problem(selection.path, f"{key}: unknown key; the only one is versions"))
    versions = content.get("versions") or {}
    if not isinstance(versions, dict):
        selection.problems.append(Problem(selection.path, "versions: not a mapping of model to version"))
        return selection
    for model, version in versions.items():
        if model not in models:
            known = ", ".join(models) or "none"
            message = f"versions.{model}: there is no such model; models: {known}"
            selection.problems.append(Problem(selection.path, message))
        elif type(version) is not int or version < 1:
            message = f"versions.{model}: {version!r} is no version; a whole number from 1"
            selection.problems.append(Problem(selection.path, message))
        else:
            selection.versions[model] = version
    return selection
