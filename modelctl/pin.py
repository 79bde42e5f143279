"""The release in a stack file, `triton-eks:models.release`: writing it with everything else left as it is, and finding
the files that name one.
"""

from __future__ import annotations

import io
import os
import tempfile
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString
from ruamel.yaml.util import load_yaml_guess_indent

from modelctl.commented_yaml import delete_key, merge_mapping, set_key
from modelctl.manifest import Manifest

KEY = "triton-eks:models"


class PinError(Exception):
    """A stack file cannot be read or changed; the text says why."""


def pin(file: Path, manifest: Manifest) -> list[str]:
    """Pins the release in a Pulumi stack file and says what changed, a line each (empty: it was pinned already).

    The caller makes sure that the release is finished. Comments, order and quoting of the file are kept, and it is
    replaced in one step. Raises PinError when the file is missing, is not YAML or has no `config`.
    """
    document, yaml = _load(file)
    config, models = _config(file, document)
    before = models.get("release") if models else None
    changes = _changes(before if isinstance(before, dict) else {}, manifest)
    if changes:
        _write_release(config, manifest)
        _replace(file, yaml, document)
    return changes


def pinned_by(stacks: Path, release_id: str) -> list[Path]:
    """The stack files in the directory `stacks` (Pulumi.*.yaml) that pin the release, sorted.

    Raises PinError when there is none to look at, or one that cannot be understood: that a release is not pinned is
    never concluded from a file that was not read.
    """
    files = sorted(stacks.glob("Pulumi.*.yaml"))
    if not files:
        raise PinError(f"{stacks}: holds no stack file Pulumi.<stack>.yaml; name the stacks' directory with --stacks")
    return [file for file in files if _pinned(file) == release_id]


def _pinned(file: Path) -> str | None:
    document, _ = _load(file)
    if isinstance(document, CommentedMap) and "config" not in document:  # as `pulumi stack init` leaves it
        return None
    _, models = _config(file, document)
    release = models.get("release") if models else None
    if release is None:
        return None
    release_id = release.get("id") if isinstance(release, CommentedMap) else None
    if not isinstance(release_id, str):  # without quotes, digits alone were read as a number
        raise PinError(f"{file}: config.{KEY}.release.id is not text; write the 12 hex digits in quotes")
    return release_id


def _config(file: Path, document: Any) -> tuple[CommentedMap, CommentedMap | None]:
    """`config` of a stack file, and KEY in it."""
    config = document.get("config") if isinstance(document, CommentedMap) else None
    if not isinstance(config, CommentedMap):
        raise PinError(f"{file}: has no mapping `config`; is it a Pulumi stack file?")
    models = config.get(KEY)
    if models is not None and not isinstance(models, CommentedMap):
        raise PinError(f"{file}: config.{KEY} is not a mapping")
    return config, models


def _load(file: Path) -> tuple[Any, YAML]:
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


def _write_release(config: CommentedMap, manifest: Manifest) -> None:
    # Quoted: an id such as 123456789012 or 12345678e901 would be read back as a number.
    release_id = DoubleQuotedScalarString(manifest.id)
    if not config.get(KEY):
        release = CommentedMap(id=release_id, bytes=manifest.bytes, models=CommentedMap(manifest.versions))
        merge_mapping(config, KEY, {"release": release})
        return
    models = config[KEY]
    if not isinstance(models.get("release"), CommentedMap) or not models["release"]:
        release = CommentedMap(id=release_id, bytes=manifest.bytes, models=CommentedMap(manifest.versions))
        merge_mapping(models, "release", release)
        return
    release = models["release"]
    set_key(release, "id", release_id)
    set_key(release, "bytes", manifest.bytes)
    merge_mapping(release, "models", manifest.versions)
    for key in [key for key in release if key not in ("id", "bytes", "models")]:
        delete_key(release, key)


def _changes(before: dict[str, Any], manifest: Manifest) -> list[str]:
    changes = []
    if before.get("id") != manifest.id:
        changes.append(f"release {before.get('id', 'none')} → {manifest.id}")
    if before.get("bytes") != manifest.bytes:
        changes.append(f"bytes {before.get('bytes', 'none')} → {manifest.bytes}")
    old = before.get("models")
    old = dict(old) if isinstance(old, dict) else {}
    for name in sorted(old.keys() | manifest.versions.keys()):
        was, becomes = old.get(name, "none"), manifest.versions.get(name, "none")
        if was != becomes:
            changes.append(f"{name} {was} → {becomes}")
    return changes


def _replace(file: Path, yaml: YAML, document: Any) -> None:
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
