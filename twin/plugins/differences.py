"""Find the changes between two sets of inputs, property by property, in the engine's path notation.

For a refresh, also find the inputs that describe the actual state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twin.plugins.values import is_asset

PLAIN_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*\Z")

ADD, DELETE, UPDATE = "add", "delete", "update"

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Change:
    """One changed property; ``kind`` is ADD, DELETE or UPDATE."""

    path: Path
    kind: str


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Return the changed leaves by the shortest paths. Null means absent; top-level keys with ``__`` are ignored."""
    return list(_mapping((), old, new))


def _mapping(path: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterable[Change]:
    for key in sorted(old.keys() | new.keys()):
        if not path and key.startswith("__"):
            continue
        yield from _value((*path, key), old.get(key), new.get(key))


def _value(path: Path, old: Any, new: Any) -> Iterable[Change]:
    if is_asset(old) and is_asset(new):
        if old.get("hash") != new.get("hash"):
            yield Change(path, UPDATE)
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        yield from _mapping(path, old, new)
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            yield from _value(
                (*path, index),
                old[index] if index < len(old) else None,
                new[index] if index < len(new) else None,
            )
    elif not same(old, new):
        yield Change(path, ADD if old is None else DELETE if new is None else UPDATE)


def same(old: Any, new: Any) -> bool:
    """Return whether two values are equal; unlike in Python, true is not 1."""
    return isinstance(old, bool) == isinstance(new, bool) and bool(old == new)


def render(path: Path) -> str:
    """Return ``spec.containers[0].image``; other keys than plain names become ``annotations["a.b/c"]``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif PLAIN_KEY.match(part):
            text += f".{part}" if text else part
        else:
            escaped = part.replace("\\", "\\\\").replace('"', '\\"')
            text += f'["{escaped}"]'
    return text


def starts_with(path: Path, prefixes: Iterable[Sequence[str | int]]) -> bool:
    """Return whether the path is one of the prefixes or below one."""
    return any(path[: len(prefix)] == tuple(prefix) for prefix in prefixes)


def refreshed(inputs: Any, before: Any, now: Any) -> Any:
    """Return the inputs, with every drifted value replaced by the current value.

    ``before`` is the state after the last operation, ``now`` the state just read. A value that the server normalised
    (``1000m`` to ``1``) differs from its input in both, which is not drift.
    """
    if same(before, now):
        return inputs
    if isinstance(inputs, Mapping) and isinstance(before, Mapping) and isinstance(now, Mapping):
        kept = {key: refreshed(value, before.get(key), now.get(key)) for key, value in inputs.items()}
        return {key: value for key, value in kept.items() if value is not None}
    if (
        isinstance(inputs, list)
        and isinstance(before, list)
        and isinstance(now, list)
        and len(inputs) == len(before) == len(now)
    ):
        return [refreshed(*items) for items in zip(inputs, before, now, strict=True)]
    return now
