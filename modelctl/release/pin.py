"""Write the release in a stack file, `triton-eks:models.release`, and find the files that pin a release.

The rest of a file stays unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from modelctl.release.commented_yaml import delete_key, merge_mapping, set_key
from modelctl.release.stacks import MODELS_KEY, stack_files, stack_name
from modelctl.store.manifest import Manifest
from spec import reading, stack_file
from spec.failure import NOT_TRIED, Failure
from spec.files import NotWritten
from spec.problem import SettingsError
from spec.reading import Unreadable
from spec.settings import load_content, load_stack_file
from spec.settings.pipelines import steps_without_entry
from spec.settings.release import ASSUMED_BATCH_SIZE
from spec.stack_editor import NotEditable, StackEditor
from spec.stack_file import StackFileError

KEY = MODELS_KEY
Judge = Callable[[bytes], object]
"""Raises an error for content that must not be written to the file."""
_OF_MODELS = (
    "ensembles",
    "asks",
    "tensorrt",
    "decoupled",
    "selfPlaced",
    "onCpu",
    "batches",
    "instances",
    "gpuMemoryMiB",
    "engines",
)
"""Keys of the release that describe some of its models."""
_RELEASE_ID = re.compile(r"[0-9a-f]{64}")


class PinError(Failure):
    """A stack file cannot be read or changed; the text says why."""

    exit_code = NOT_TRIED


class PinRefused(PinError):
    """A stack file without mistakes would have some with the release."""


@dataclass(frozen=True)
class Pinned:
    """The release that a stack file pins: its id, and the previous id for `modelctl rollback`.

    `serving` is the digest of the serving settings from which the release was made. `candidate` is the id of the release on
    trial.
    """

    id: str
    previous: str | None
    serving: str | None
    candidate: str | None = None


@dataclass(frozen=True)
class Pins:
    """The stack files that need a release: `files` pin it, `as_previous` could be rolled back to it."""

    files: list[Path]
    as_previous: list[Path]


def pin(file: Path, manifest: Manifest, judge: Judge | None = None) -> list[str]:
    """Pin the release in a stack file and return the changes, a line each. Empty if it was already pinned.

    The release that was pinned before becomes `previous`. The caller ensures that the release is finished. Comments, order
    and quoting of the file are kept, and the file is replaced atomically, after `judge`. Raises PinError when the file is
    missing, is not YAML, has no `config`, or has this release as its candidate. If the release distinguishes stacks, the
    file must also be named after its stack. Raises the errors of `judge`.
    """
    editor = edit(file)
    models = section(editor)
    _refuse_candidate(file, models, manifest.id)
    refuse_open(file, models, manifest)
    written = models.get("release") if models else None
    before = written if isinstance(written, dict) else {}
    values = release_values(before, manifest, file)
    changes = _changes(before, values)
    if changes:
        _write_release(editor.config, editor.key(KEY), values)
        save(editor, {(editor.key(KEY), "release"): values}, judge)
    return changes


def pin_accepted(file: Path, manifest: Manifest) -> list[str]:
    """Do as `pin`. Raise PinRefused if a stack file without mistakes would have some with this release."""

    def judge(content: bytes) -> None:
        try:
            load_content(content, file)
        except SettingsError as error:
            raise PinRefused(
                f"{file}: with release {manifest.id} the stack is refused, and nothing was written:\n{error}"
            ) from None

    try:
        load_stack_file(file)
    except (SettingsError, Unreadable):  # a file with only pins, or refused before: the release is not the reason
        return pin(file, manifest)
    return pin(file, manifest, judge)


def _refuse_candidate(file: Path, models: Mapping[str, Any] | None, release_id: str) -> None:
    tried = models.get("candidate") if models else None
    release = tried.get("release") if isinstance(tried, dict) else None
    if isinstance(tried, dict) and isinstance(release, dict) and release.get("id") == release_id:
        raise PinError(
            f"{file}: release {release_id} is models.candidate, with pods of its own and {tried.get('percent', 0)} % of the "
            f"requests. `modelctl rollout {release_id}` goes on with it until it is the release; to pin it without, take it "
            "out first, with `modelctl rollout --back`"
        )


def refuse_open(file: Path, models: Mapping[str, Any] | None, manifest: Manifest) -> None:
    """Refuse models whose queues or instances neither their own config nor the stack sets. Raises PinError."""
    serving = models.get("serving") if models else None
    wanted = {*serving} if isinstance(serving, dict) else set()
    needed = {name: (*entry.steps, *entry.asks) for name, entry in manifest.models.items()}
    wanted |= {step for name in wanted for step in steps_without_entry(name, needed, wanted, manifest.self_placed)}
    for name in sorted(name for name, entry in manifest.models.items() if entry.open and name not in wanted):
        raise PinError(
            f"{file}: the config.pbtxt of {name} in release {manifest.id} leaves its queue or its instances open, and "
            f"config.{KEY}.serving has no entry for it; give it one, and make the release again"
        )


def pinned_by(stacks: Path, release_id: str) -> Pins:
    """Return the stack files in the directory `stacks` that need the release, sorted.

    Raises PinError when there is no stack file, or one that cannot be read, because an unread file may pin the release.
    """
    files = required_stack_files(stacks)
    found = {file: pinned(file) for file in files}
    return Pins(
        files=[file for file, release in found.items() if release and release_id in (release.id, release.candidate)],
        as_previous=[file for file, release in found.items() if release and release.previous == release_id],
    )


def required_stack_files(stacks: Path) -> list[Path]:
    """Return the stack files in a directory that the user named, sorted. Raises PinError when there are none."""
    files = stack_files(stacks)
    if not files:
        raise PinError(f"{stacks}: holds no stack file Pulumi.<stack>.yaml; name the stacks' directory with --stacks")
    return files


def pinned(file: Path) -> Pinned | None:
    """Return the release in a stack file; None if it pins none. Raises PinError."""
    try:
        found = stack_file.read(reading.file(file))
    except Unreadable as error:
        raise PinError(f"{error}; a stack's file is stacks/Pulumi.<stack>.yaml") from None
    except StackFileError as error:
        raise PinError("\n".join(mistake.within(file) for mistake in error.mistakes)) from None
    models = stack_file.decoded((found.config or {}).get(KEY))  # `pulumi stack init` leaves a file without `config`
    if models is not None and not isinstance(models, dict):
        raise PinError(f"{file}: config.{KEY} is not a mapping")
    release = models.get("release") if models else None
    if release is None:
        return None
    values = release if isinstance(release, dict) else {}
    for key in ("id", "previous", "serving"):
        value = values.get(key)
        # Without quotes, an id of digits was read as a number.
        if not isinstance(value, str) and (value is not None or key == "id"):
            raise PinError(f"{file}: config.{KEY}.release.{key} is not text; `modelctl pin` writes it")
    candidate = models.get("candidate") if models else None
    tried = candidate.get("release") if isinstance(candidate, dict) else None
    tried_id = tried.get("id") if isinstance(tried, dict) else None
    return Pinned(
        values["id"],
        values.get("previous"),
        values.get("serving"),
        tried_id if isinstance(tried_id, str) else None,
    )


def signers(file: Path) -> tuple[str, ...]:
    """Return the signers that a stack file requires, also for a file with only pins. Raises PinError."""
    models = section(edit(file))
    listed = models.get("signers") if models else None
    return tuple(map(str, listed)) if isinstance(listed, list) else ()


def edit(file: Path) -> StackEditor:
    """Open the stack file for changes. Raises PinError."""
    try:
        return StackEditor(file)
    except NotEditable as error:
        raise PinError(str(error)) from None


def save(editor: StackEditor, changes: Mapping[tuple[str, ...], Any], judge: Judge | None = None) -> None:
    """Write only these changes. Raises PinError, also if the file is not writable, and the errors of `judge`."""
    try:
        editor.save(changes, judge)
    except (NotEditable, NotWritten) as error:
        raise PinError(str(error)) from None


def section(editor: StackEditor) -> CommentedMap | None:
    """Return the stack's section of models; None if it has none. Raises PinError when it is not a mapping."""
    try:
        return editor.section(KEY)
    except NotEditable as error:
        raise PinError(str(error)) from None


def _stack_of(file: Path, manifest: Manifest) -> str | None:
    """Return the stack of this file, for which the release may have separate configs. Raises PinError."""
    stack = stack_name(file)
    if stack is None and manifest.serving:
        raise PinError(
            f"{file}: is not named Pulumi.<stack>.yaml, so it cannot be told which stack's configs the release has for it"
        )
    return stack


def release_values(before: Mapping[str, Any], manifest: Manifest, file: Path) -> dict[str, Any]:
    """Return the section `release` of a stack file, in the order in which it is written. Raises PinError.

    Digests are quoted, because 123456789012 or 12345678e901 would be read back as a number.
    """
    stack = _stack_of(file, manifest)
    derived = manifest.derived_for(stack)
    replaced = before.get("id")
    previous = before.get("previous") if replaced == manifest.id else replaced
    values: dict[str, Any] = {"id": DoubleQuotedScalarString(manifest.id), "bytes": manifest.download_bytes}
    values["models"] = manifest.versions
    if manifest.others:
        values["others"] = {model: _on_one_line(versions) for model, versions in manifest.others.items()}
    if manifest.ensembles:
        values["ensembles"] = {model: _on_one_line(steps) for model, steps in manifest.ensembles.items()}
    if manifest.asks:
        values["asks"] = {model: _on_one_line(asked) for model, asked in manifest.asks.items()}
    if manifest.tensorrt:
        # Quoted, because 10.10 would be read back as 10.1.
        quoted = {model: [DoubleQuotedScalarString(one) for one in built] for model, built in manifest.tensorrt.items()}
        values["tensorrt"] = {model: _on_one_line(built) for model, built in quoted.items()}
    for key, models in (("decoupled", manifest.decoupled), ("selfPlaced", manifest.self_placed), ("onCpu", manifest.on_cpu)):
        if models:
            values[key] = _on_one_line(models)
    if batches := {model: size for model, size in manifest.batches.items() if size != ASSUMED_BATCH_SIZE}:
        values["batches"] = batches
    if derived.instances:
        values["instances"] = dict(sorted(derived.instances.items()))
    if derived.gpu_memory_mib:
        values["gpuMemoryMiB"] = dict(sorted(derived.gpu_memory_mib.items()))
    if derived.engines:
        values["engines"] = _on_one_line(derived.engines)
    if (serving := manifest.serving.get(stack or "")) is not None:
        values["serving"] = DoubleQuotedScalarString(serving)
    if isinstance(previous, str) and _RELEASE_ID.fullmatch(previous):
        values["previous"] = DoubleQuotedScalarString(previous)
    return values


def _on_one_line(items: Sequence[int | str]) -> CommentedSeq:
    written = CommentedSeq(items)
    written.fa.set_flow_style()
    return written


def _write_release(config: CommentedMap, models_key: str, values: dict[str, Any]) -> None:
    mappings = {key: CommentedMap(value) for key, value in values.items() if isinstance(value, dict)}
    complete = CommentedMap({**values, **mappings})
    if not config.get(models_key):
        merge_mapping(config, models_key, {"release": complete})
        return
    models = config[models_key]
    if not isinstance(models.get("release"), CommentedMap) or not models["release"]:
        merge_mapping(models, "release", complete)
        return
    release = models["release"]
    for key, value in values.items():
        if isinstance(value, dict):
            merge_mapping(release, key, value)
        else:
            set_key(release, key, value)
    for key in [key for key in release if key not in values]:
        delete_key(release, key)


def _changes(before: Mapping[str, Any], values: Mapping[str, Any]) -> list[str]:
    """Return the differences, a line each; the release's own line implies `previous`."""
    changes = [
        f"{'release' if key == 'id' else key} {before.get(key, 'none')} → {values.get(key, 'none')}"
        for key in ("id", "bytes", "serving")
        if before.get(key) != values.get(key)
    ]
    changes += [
        f"{key} {_plain(before.get(key))} → {_plain(values.get(key))}"
        for key in _OF_MODELS
        if _plain(before.get(key)) != _plain(values.get(key))
    ]
    old, new = _served(before), _served(values)
    for name in sorted(old.keys() | new.keys()):
        was, becomes = old.get(name, "none"), new.get(name, "none")
        if was != becomes:
            changes.append(f"{name} {was} → {becomes}")
    return changes


def _plain(value: Any) -> str:
    """Return the value of a key in readable form: `pipeline: normalize, classify`."""
    if isinstance(value, dict):
        return "; ".join(f"{name}: {_plain(steps)}" for name, steps in value.items()) or "none"
    if isinstance(value, int):
        return str(value)
    return ", ".join(map(str, value)) if isinstance(value, list) and value else "none"


def _served(release: Mapping[str, Any]) -> dict[str, str]:
    """Return the versions (`1` or `1, 2`) by model. The section `release` may have manual mistakes."""
    models, others = (found if isinstance(found := release.get(key), dict) else {} for key in ("models", "others"))
    return {name: ", ".join(map(str, (*(others.get(name) or ()), version))) for name, version in models.items()}
