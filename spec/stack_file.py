"""A stack file, `Pulumi.<stack>.yaml`: the values of `config` by the engine's key names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spec import reading, yaml_reader
from spec.reading import Unreadable
from spec.yaml_reader import YamlError

PROJECT = "triton-eks"
"""The project name in Pulumi.yaml, which is the namespace of keys without one."""
CONFIG = "config"


class StackFileError(ValueError):
    """A text that is not a stack file or contradicts itself. `mistakes` lists all problems."""

    def __init__(self, mistakes: list[YamlError]) -> None:
        self.mistakes = mistakes
        super().__init__("\n".join(map(str, mistakes)))


@dataclass(frozen=True)
class StackFile:
    """A stack file: `config` by full key names, the file's `spelling` of each key, and the other keys of the file in `rest`.

    `config` is None if the file has no such key or no value for it.
    """

    config: dict[str, Any] | None
    spelling: Mapping[str, str]
    rest: Mapping[str, Any]


def read(content: bytes | str) -> StackFile:
    """Read a stack file. Raises StackFileError."""
    try:
        document = yaml_reader.read(content)
    except YamlError as error:
        raise StackFileError([error]) from None
    whole = document.value if document.value is not None else {}
    if not isinstance(whole, dict):
        raise StackFileError([YamlError("a stack file is a mapping with a mapping `config` in it, and this is not")])
    config = whole.get(CONFIG)
    if not isinstance(config, dict | None):
        line = document.lines.get((CONFIG,))
        raise StackFileError([YamlError("config is not a mapping; give the mapping of all settings", line)])
    spelling: dict[str, str] = {}
    mistakes = []
    for key in config or {}:
        other = spelling.setdefault(full_name(key), key)
        if other != key:
            first, line = (document.lines.get((CONFIG, one)) for one in (other, key))
            mistakes.append(
                YamlError(f"{key} and {other} (line {first}) are two spellings of one key; keep one of them", line)
            )
    for key, value in (config or {}).items():
        try:
            decoded(value)
        except Unreadable as error:
            mistakes.append(YamlError(f"{key}: {error}", document.lines.get((CONFIG, key))))
    if mistakes:
        raise StackFileError(mistakes)
    named = None if config is None else {name: config[key] for name, key in spelling.items()}
    return StackFile(named, spelling, {key: value for key, value in whole.items() if key != CONFIG})


def full_name(key: str) -> str:
    """Return `triton-eks:network` for `network`, for itself and for `triton-eks:config:network`, as the engine does."""
    parts = key.split(":")
    if len(parts) == 3 and parts[1] == "config":
        return f"{parts[0]}:{parts[2]}"
    return key if len(parts) > 1 else f"{PROJECT}:{key}"


def decoded(value: Any) -> Any:
    """Return a value of `config` in the program's form. The engine passes text, with JSON for structured values.

    Raises Unreadable for JSON with duplicate keys (the last one would win silently), lone surrogates, or too deep nesting.
    """
    if value is None or value == "":  # the engine passes "" for a key without a value
        return None
    if not isinstance(value, str):
        return value
    try:
        found = json.loads(value, parse_constant=_refuse, object_pairs_hook=reading.once)
    except (ValueError, RecursionError):
        return value
    reading.usable(found)
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number of JSON")
