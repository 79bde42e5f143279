"""Reviewed registrations of each stack and example: `prod` in full, others as differences from `prod`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.paths import ROOT

STACKS = ("prod", "local", "dev", "staging")
EXAMPLES = tuple(sorted(path.stem for path in (ROOT / "examples" / "stacks").glob("*.yaml")))
FOLDER = ROOT / "tests" / "system" / "component" / "snapshots"
_WHOLE = "prod"
_ABSENT = "(absent)"
_HASH = re.compile(r"-[0-9a-f]{7}\b")
"""The suffix of a role's name."""


def file_of(stack: str) -> Path:
    return FOLDER / "examples" / f"{stack}.json" if stack in EXAMPLES else FOLDER / f"{stack}.json"


def read(stack: str) -> dict[str, Any]:
    """Return the registrations: `resources` and `exports`, as tests/system/component/engine/snapshot.py writes them."""
    difference = json.loads(file_of(stack).read_text(encoding="utf-8"))
    content: dict[str, Any] = difference if stack == _WHOLE else merged(_base(stack), difference)
    resources = content["resources"]
    while orphans := [key for key, entry in resources.items() if entry.get("parent", key) not in resources]:
        for key in orphans:
            del resources[key]
    return content


def resources(stack: str) -> dict[str, Any]:
    """Return the stack's resources by `name (type)`."""
    found: dict[str, Any] = read(stack)["resources"]
    return found


def text(stack: str, content: Mapping[str, Any]) -> str:
    """Return the file's text for a stack that registers `content`.

    For an example, each resource is one line, without hashes in names. Children of an absent component have no line.
    """
    if stack in EXAMPLES:
        base = _base(stack)
        shown = difference(base, json.loads(_HASH.sub("", json.dumps(content))))
        registered, changed = base["resources"], shown["resources"]
        absent = {key for key, entry in changed.items() if entry == _ABSENT}
        with_component = {key for key in absent if registered[key].get("parent") in absent}
        shown["resources"] = {key: entry for key, entry in changed.items() if key not in with_component}
        return _lines(shown, levels=2) + "\n"
    shown = content if stack == _WHOLE else difference(_base(stack), content)
    return json.dumps(shown, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _lines(value: Any, levels: int) -> str:
    """Return a value as JSON, with one line per member down to `levels`."""
    if levels == 0 or not isinstance(value, Mapping) or not value:
        return json.dumps(value, sort_keys=True, ensure_ascii=False)
    members = (f"{json.dumps(key)}: {_lines(member, levels - 1)}" for key, member in sorted(value.items()))
    return "{\n" + ",\n".join(members) + "\n}"


def _base(stack: str) -> Any:
    """Return `prod` with another stack's name."""
    text = re.sub(rf"\b{_WHOLE}\b", stack, (FOLDER / f"{_WHOLE}.json").read_text(encoding="utf-8"))
    return json.loads(_HASH.sub("", text) if stack in EXAMPLES else text)


def difference(base: Any, content: Any) -> Any:
    """Return the changes from `base` to `content`: differing members of a mapping, or items of an equally long list."""
    if isinstance(base, list) and isinstance(content, list) and len(base) == len(content):
        base, content = _by_position(base), _by_position(content)
    if not (isinstance(base, Mapping) and isinstance(content, Mapping)):
        return content
    other = {key: value for key, value in content.items() if key not in base or base[key] != value}
    changed = {key: difference(base.get(key), value) for key, value in other.items()}
    return {**changed, **dict.fromkeys(base.keys() - content.keys(), _ABSENT)}


def merged(base: Any, difference: Any) -> Any:
    """Return the content from which `difference` was computed."""
    if isinstance(base, list) and isinstance(difference, Mapping) and difference.keys() <= _by_position(base).keys():
        return list(merged(_by_position(base), difference).values())
    if not (isinstance(base, Mapping) and isinstance(difference, Mapping)):
        return difference
    kept = {key: value for key, value in base.items() if difference.get(key) != _ABSENT}
    return {**kept, **{key: merged(base.get(key), value) for key, value in difference.items() if value != _ABSENT}}


def _by_position(items: list[Any]) -> dict[str, Any]:
    return {f"[{position}]": item for position, item in enumerate(items)}
