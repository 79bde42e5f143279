"""Edit the candidate of a stack file (`triton-eks:models.candidate`): a release on trial next to the pinned release.

The rest of the file stays unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml.comments import CommentedMap

from modelctl.release.commented_yaml import delete_key, merge_mapping, set_key
from modelctl.release.pin import KEY, PinError, edit, refuse_open, release_values, save, section
from modelctl.store.manifest import Manifest
from spec.settings import load_content
from spec.settings.blue_green import other_slot
from spec.settings.models import Slot
from spec.stack_editor import StackEditor

_OF_COPIES = ("mirrorPercent", "mirrorTolerances")


def add(file: Path, manifest: Manifest, pods: int | None) -> None:
    """Add a candidate that gets no requests. Raises PinError and SettingsError; then the file is unchanged."""
    editor, models = _models(file)
    refuse_open(file, models, manifest)
    values: dict[str, Any] = {"percent": 0} if pods is None else {"percent": 0, "pods": pods}
    values["release"] = release_values({}, manifest, file)
    expected = {**models, "candidate": values}
    merge_mapping(models, "candidate", {**values, "release": _block(values["release"])})
    _save(file, editor, expected)


def mirror(file: Path, percent: int, tolerances: Mapping[str, float]) -> None:
    """Set the mirrored share of requests, and the models whose responses are compared.

    Raises the errors of `add`.
    """
    editor, models = _models(file)
    tried = models["candidate"]
    compared = {"mirrorTolerances": dict(tolerances)} if tolerances else {}
    without = {key: value for key, value in tried.items() if key not in _OF_COPIES}
    expected = {**models, "candidate": {**without, "mirrorPercent": percent, **compared}}
    _delete_copies(tried)
    set_key(tried, "mirrorPercent", percent)
    for key, values in compared.items():
        merge_mapping(tried, key, values)
    _save(file, editor, expected)


def give(file: Path, percent: int) -> None:
    """Set the candidate's share of requests, which replaces mirroring. Raises the errors of `add`."""
    editor, models = _models(file)
    values = {key: value for key, value in models["candidate"].items() if key not in _OF_COPIES}
    expected = {**models, "candidate": {**values, "percent": percent}}
    set_key(models["candidate"], "percent", percent)
    _delete_copies(models["candidate"])
    _save(file, editor, expected)


def remove(file: Path) -> None:
    """Remove the candidate from the file. Raises the errors of `add`."""
    editor, models = _models(file)
    expected = {key: value for key, value in models.items() if key != "candidate"}
    delete_key(models, "candidate")
    _save(file, editor, expected)


def promote(file: Path, manifest: Manifest, slot: Slot) -> None:
    """Make the candidate the release, on its own pods, and the release in `slot` the previous one. Raises the errors of
    `add`."""
    editor, models = _models(file)
    values = release_values(models["release"], manifest, file)
    expected = {key: value for key, value in models.items() if key != "candidate"}
    expected |= {"release": values, "slot": other_slot(slot)}
    merge_mapping(models, "release", _block(values))
    set_key(models, "slot", other_slot(slot))
    delete_key(models, "candidate")
    _save(file, editor, expected)


def _delete_copies(tried: CommentedMap) -> None:
    for key in _OF_COPIES:
        if key in tried:
            delete_key(tried, key)


def _block(values: dict[str, Any]) -> CommentedMap:
    return CommentedMap({key: CommentedMap(value) if isinstance(value, dict) else value for key, value in values.items()})


def _models(file: Path) -> tuple[StackEditor, CommentedMap]:
    editor = edit(file)
    models = section(editor)
    if models is None:
        raise PinError(f"{file}: config.{KEY} is missing, and with it the release that a candidate could replace")
    return editor, models


def _save(file: Path, editor: StackEditor, expected: dict[str, Any]) -> None:
    save(editor, {(editor.key(KEY),): expected}, lambda content: load_content(content, file))
