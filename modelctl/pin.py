"""The release in a stack file, `triton-eks:models.release`: writing it with everything else left as it is, and finding
the files that name one.
"""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString
from ruamel.yaml.util import load_yaml_guess_indent

from modelctl.commented_yaml import delete_key, merge_mapping, set_key
from modelctl.manifest import Manifest
from modelctl.stacks import MODELS_KEY, stack_files, stack_name

KEY = MODELS_KEY
_RELEASE_ID = re.compile(r"[0-9a-f]{12}")


class PinError(Exception):
    """A stack file cannot be read or changed; the text says why."""


@dataclass(frozen=True)
class Pinned:
    """What a stack file says of its release: its id, and that of the one before, for `modelctl rollback`.

    `serving` is the digest of the wants that the release was made from.
    """

    id: str
    previous: str | None
    serving: str | None


@dataclass(frozen=True)
class Pins:
    """The stack files that need a release: `files` pin it, `as_previous` could be rolled back to it."""

    files: list[Path]
    as_previous: list[Path]


def pin(file: Path, manifest: Manifest) -> list[str]:
    """Pins the release in a Pulumi stack file and says what changed, a line each (empty: it was pinned already).

    The release that was pinned before is kept as `previous`. The caller makes sure that the release is finished. Comments,
    order and quoting of the file are kept, and it is replaced in one step. Raises PinError when the file is missing, is not
    YAML, has no `config`, or is not named after its stack while the release distinguishes stacks.
    """
    document, yaml = load_document(file)
    config, models = models_of(file, document)
    written = models.get("release") if models else None
    before = written if isinstance(written, dict) else {}
    values = _values(before, manifest, _serving(file, manifest))
    changes = _changes(before, values)
    if changes:
        _write_release(config, values)
        replace_document(file, yaml, document)
    return changes


def pinned_by(stacks: Path, release_id: str) -> Pins:
    """The stack files in the directory `stacks` that need the release, sorted.

    Raises PinError when there is none to look at, or one that cannot be understood: that a release is not pinned is
    never concluded from a file that was not read.
    """
    files = required_stack_files(stacks)
    found = {file: pinned(file) for file in files}
    return Pins(
        files=[file for file, release in found.items() if release and release.id == release_id],
        as_previous=[file for file, release in found.items() if release and release.previous == release_id],
    )


def required_stack_files(stacks: Path) -> list[Path]:
    """The stack files in a directory that somebody named, sorted. Raises PinError when there is none."""
    files = stack_files(stacks)
    if not files:
        raise PinError(f"{stacks}: holds no stack file Pulumi.<stack>.yaml; name the stacks' directory with --stacks")
    return files


def pinned(file: Path) -> Pinned | None:
    """The release in a stack file, None when it pins none. Raises PinError."""
    document, _ = load_document(file)
    if isinstance(document, CommentedMap) and "config" not in document:  # as `pulumi stack init` leaves it
        return None
    _, models = models_of(file, document)
    release = models.get("release") if models else None
    if release is None:
        return None
    values = release if isinstance(release, CommentedMap) else {}
    for key in ("id", "previous", "serving"):
        value = values.get(key)
        # Without quotes, digits alone were read as a number.
        if not isinstance(value, str) and (value is not None or key == "id"):
            raise PinError(f"{file}: config.{KEY}.release.{key} is not text; write the 12 hex digits in quotes")
    return Pinned(values["id"], values.get("previous"), values.get("serving"))


def models_of(file: Path, document: Any) -> tuple[CommentedMap, CommentedMap | None]:
    """`config` of a stack file, and KEY in it (None: it has none). Raises PinError when either is no mapping."""
    config = document.get("config") if isinstance(document, CommentedMap) else None
    if not isinstance(config, CommentedMap):
        raise PinError(f"{file}: has no mapping `config`; is it a Pulumi stack file?")
    models = config.get(KEY)
    if models is not None and not isinstance(models, CommentedMap):
        raise PinError(f"{file}: config.{KEY} is not a mapping")
    return config, models


def load_document(file: Path) -> tuple[Any, YAML]:
    """A stack file with its comments, and what writes it in its own style again. Raises PinError."""
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096  # never fold a long line that the file has
    try:
        text = file.read_text(encoding="utf-8")
        document, indent, sequence_offset = load_yaml_guess_indent(text, yaml=yaml)
    except FileNotFoundError:
        raise PinError(f"{file}: no such file; a stack's file is stacks/Pulumi.<stack>.yaml") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PinError(f"{file}: cannot be read: {error}") from None
    except MarkedYAMLError as error:
        mark = error.problem_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise PinError(f"{file}{place}: not valid YAML: {error.problem}") from None
    except YAMLError as error:  # a control character; its text has two lines
        raise PinError(f"{file}: not valid YAML: {str(error).splitlines()[0]}") from None
    yaml.indent(mapping=2, sequence=indent or 2, offset=sequence_offset or 0)
    return document, yaml


def _serving(file: Path, manifest: Manifest) -> str | None:
    """The digest of the wants that the release was made from for the stack of this file."""
    stack = stack_name(file)
    if stack is None and manifest.serving:
        raise PinError(
            f"{file}: is not named Pulumi.<stack>.yaml, so it cannot be told which stack's configs the release has for it"
        )
    return manifest.serving.get(stack) if stack is not None else None


def _values(before: Mapping[str, Any], manifest: Manifest, serving: str | None) -> dict[str, Any]:
    """The section `release`, in the order in which it is written.

    Digests are quoted: 123456789012 or 12345678e901 would be read back as a number.
    """
    replaced = before.get("id")
    previous = before.get("previous") if replaced == manifest.id else replaced
    values: dict[str, Any] = {"id": DoubleQuotedScalarString(manifest.id), "bytes": manifest.download_bytes}
    values["models"] = manifest.versions
    if manifest.others:
        values["others"] = {model: _on_one_line(versions) for model, versions in manifest.others.items()}
    if serving is not None:
        values["serving"] = DoubleQuotedScalarString(serving)
    if isinstance(previous, str) and _RELEASE_ID.fullmatch(previous):
        values["previous"] = DoubleQuotedScalarString(previous)
    return values


def _on_one_line(versions: list[int]) -> CommentedSeq:
    written = CommentedSeq(versions)
    written.fa.set_flow_style()
    return written


def _write_release(config: CommentedMap, values: dict[str, Any]) -> None:
    mappings = {key: CommentedMap(value) for key, value in values.items() if isinstance(value, dict)}
    complete = CommentedMap({**values, **mappings})
    if not config.get(KEY):
        merge_mapping(config, KEY, {"release": complete})
        return
    models = config[KEY]
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
    """What differs, a line each; `previous` follows from the release's own line."""
    changes = [
        f"{'release' if key == 'id' else key} {before.get(key, 'none')} → {values.get(key, 'none')}"
        for key in ("id", "bytes", "serving")
        if before.get(key) != values.get(key)
    ]
    old, new = _served(before), _served(values)
    for name in sorted(old.keys() | new.keys()):
        was, becomes = old.get(name, "none"), new.get(name, "none")
        if was != becomes:
            changes.append(f"{name} {was} → {becomes}")
    return changes


def _served(release: Mapping[str, Any]) -> dict[str, str]:
    """`1` or `1, 2` of each model of a section `release`, which may be one that a person wrote wrong."""
    models, others = (found if isinstance(found := release.get(key), dict) else {} for key in ("models", "others"))
    return {name: ", ".join(map(str, (*(others.get(name) or ()), version))) for name, version in models.items()}


def replace_document(file: Path, yaml: YAML, document: Any) -> None:
    """Writes the file anew, whole or not at all. Raises PinError."""
    buffer = io.StringIO()
    yaml.dump(document, buffer)
    written: Path | None = None
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=file.parent, prefix=f".{file.name}.", delete=False
        ) as temporary:
            written = Path(temporary.name)
            temporary.write(buffer.getvalue())
            temporary.flush()
            os.fsync(temporary.fileno())
        written.chmod(file.stat().st_mode & 0o777)
        written.replace(file)
    except OSError as error:
        if written is not None:
            written.unlink(missing_ok=True)
        raise PinError(f"{file}: cannot be written: {error}") from None
