"""Find the changed values of a resource and format them.

Secrets are hidden, and each value is at most one line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from spec import reading
from spec.reading import Unreadable
from stackctl.review.plan import ABSENT, Change
from stackctl.review.redaction import SECRET, has_secret, names_a_secret

LONGEST_VALUE = 80
"""Longest printed value, in characters."""
MOST_CHANGES = 40
"""Most changes of one resource. The rest is counted."""

UNKNOWN = "(known after the update)"

_UNKNOWN_SENTINELS = frozenset({"04da6b54-80e4-46f7-96ec-b56ff0331ba9", "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
                                "3eeb2bf0-c639-47a8-9e75-3b44932eb421", "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
                                "030794c1-ac77-496b-92df-f27374a8bd58", "e48ece36-62e2-4504-bad9-02848725956a",
                                "dd056dcd-154b-4c76-9bd3-c8f88648b5ff"})  # fmt: skip
"""Values that the engine writes for unknown values in a preview (pulumi sdk/go/common/resource/plugin/rpc.go)."""
_SIGNATURE = "4dabf18193072939515e22adb298388d"
_SECRET_SIGNATURE = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - the engine's mark of a secret, not one
_SECRET_TEXT = "[secret]"  # noqa: S105 - what the engine writes in the place of one
_OBJECTS_OF_SECRETS = frozenset({"kubernetes:core/v1:Secret"})
_NAMING = re.compile(r"(?:[a-z]*[._-]?)?(?:name|key)", re.IGNORECASE)
_NAMED = re.compile(r"(?:[a-z]*[._-]?)?value", re.IGNORECASE)
"""Keys of name-value pairs: `name`, `key` and `ParameterKey` hold the name, `ParameterValue` the value."""
_INDEX = re.compile(r"\[([0-9]{1,9})\]|\[\"((?:[^\"\\]|\\.)*)\"\]|\.?([^.\[\]]+)")
_MISSING = object()


def between(type_: str, old: Mapping[str, Any], new: Mapping[str, Any], paths: Iterable[str]) -> tuple[Change, ...]:
    """Return the changed leaves below `paths` between two states of a resource.

    The leaves are sorted by path and unique. `old` and `new` are engine states: `inputs`, `outputs`,
    `additionalSecretOutputs`. A path that is in neither state has no values.
    """
    hidden = frozenset(name for state in (old, new) for name in state.get("additionalSecretOutputs") or ())
    old, new = ({part: _with_marked_pairs(state.get(part)) for part in ("inputs", "outputs")} for state in (old, new))
    found: dict[str, Change] = {}
    for path in paths:
        before, after = _both(old, new, path)
        for leaf, left, right in _leaves(path, before, after):
            named = names_a_secret(leaf) and (_may_be_secret(left) or _may_be_secret(right))
            secret = type_ in _OBJECTS_OF_SECRETS or named or _first(leaf) in hidden
            secret = secret or _contains_secret(left) or _contains_secret(right)  # a secret in one state is hidden in both
            found[leaf] = Change(leaf, _shown(left, secret), _shown(right, secret))
    return tuple(found[path] for path in sorted(found))


def _both(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> tuple[Any, Any]:
    """Return the inputs before and after, or the outputs if the inputs are equal.

    Drift may appear only in the outputs.
    """
    for part in ("inputs", "outputs"):
        before, after = at(old.get(part) or {}, path), at(new.get(part) or {}, path)
        if before is _MISSING and after is _MISSING:
            continue
        if before != after:
            return before, after
    return _MISSING, _MISSING


def is_unknown(text: str) -> bool:
    """Return whether the engine writes this text for an unknown value in a preview."""
    return text in _UNKNOWN_SENTINELS


def at(value: Any, path: str) -> Any:
    """Return the value at a property path of a state's inputs or outputs.

    Without a value, return a marker that equals no other value.
    """
    for match in _INDEX.finditer(path):
        if _is_secret(value):
            return value
        index, quoted, plain = match.groups()
        if index is not None and isinstance(value, list):
            if int(index) >= len(value):
                return _MISSING
            value = value[int(index)]
        elif isinstance(value, dict):
            key = index or (_unquoted(quoted) if quoted is not None else plain)
            if key not in value:
                return _MISSING
            value = value[key]
        else:
            return _MISSING
    return value


def _unquoted(key: str) -> str:
    try:
        return str(reading.json_value(f'"{key}"'))
    except Unreadable:
        return key


def _leaves(path: str, before: Any, after: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the paths below `path` at which two values differ.

    JSON in text values (policies, chart values) is compared too.
    """
    before, after = _parsed(before, after)
    if before is not _MISSING and before == after:
        return
    if _container(before, dict) and _container(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from _leaves(_member(path, key), before.get(key, _MISSING), after.get(key, _MISSING))
    elif _container(before, list) and _container(after, list):
        for index in range(max(len(before), len(after))):
            yield from _leaves(f"{path}[{index}]", _item(before, index), _item(after, index))
    else:
        yield path, before, after


def _container(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not _is_secret(value)


def _item(values: Sequence[Any], index: int) -> Any:
    return values[index] if index < len(values) else _MISSING


def _member(path: str, key: str) -> str:
    return f"{path}.{key}" if re.fullmatch(r"[A-Za-z_][\w-]*", key) else f"{path}[{json.dumps(key)}]"


def _parsed(before: Any, after: Any) -> tuple[Any, Any]:
    if not (isinstance(before, str) and isinstance(after, str) and before[:1] in "{[" and after[:1] in "{["):
        return before, after
    left, right = _structure(before), _structure(after)
    return (left, right) if left is not None and type(left) is type(right) else (before, after)


def _is_secret(value: Any) -> bool:
    return isinstance(value, dict) and value.get(_SIGNATURE) == _SECRET_SIGNATURE


def _contains_secret(value: Any) -> bool:
    if _is_secret(value):
        return True
    if isinstance(value, str):
        return _SECRET_TEXT in value or has_secret(value) or _contains_secret(_structure(value))
    if isinstance(value, dict):
        named = any(_may_be_secret(item) and names_a_secret(key) for key, item in value.items())
        return named or any(map(_contains_secret, value.values()))
    if isinstance(value, list):
        return any(_contains_secret(item) for item in value)
    return False


def _may_be_secret(value: Any) -> bool:
    """Return whether a value can be a secret: `automountServiceAccountToken: false` stays visible."""
    return not (value is None or value is _MISSING or isinstance(value, bool))


def _structure(text: str) -> Any:
    """Parse a JSON text; return None for other text."""
    if text[:1] not in ("{", "["):
        return None
    try:
        return _with_marked_pairs(reading.json_value(text))
    except Unreadable:
        return None


def _with_marked_pairs(value: Any) -> Any:
    """Mark the secret values of name-value pairs.

    Examples: `{name: DB_PASSWORD, value: …}`, `{Key: password, Value: …}`.
    """
    if isinstance(value, list):
        return [_with_marked_pairs(item) for item in value]
    if not isinstance(value, dict) or _is_secret(value):
        return value
    names = [str(item) for key, item in value.items() if _NAMING.fullmatch(key) and isinstance(item, str)]
    secret = any(map(names_a_secret, names))
    return {
        key: {_SIGNATURE: _SECRET_SIGNATURE, "value": item}
        if secret and _NAMED.fullmatch(key) and isinstance(item, str)
        else _with_marked_pairs(item)
        for key, item in value.items()
    }


def _first(path: str) -> str:
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def _shown(value: Any, secret: bool) -> str:
    if value is _MISSING or value is None:
        return ABSENT
    if secret or _contains_secret(value):
        return SECRET
    if isinstance(value, str):
        if value in _UNKNOWN_SENTINELS:
            return UNKNOWN
        text = value
    else:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        for sentinel in _UNKNOWN_SENTINELS:
            text = text.replace(f'"{sentinel}"', UNKNOWN)
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"
