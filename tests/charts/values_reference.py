"""The values of a chart: all values, and the values that a `# --` comment in values.yaml describes."""

import re
from collections.abc import Iterator
from typing import Any

_KEY = re.compile(r"^( *)([A-Za-z0-9_]+):")


def documented(text: str) -> set[str]:
    """Return the dotted paths of the values that have a `# --` comment."""
    found, parents, described = set(), list[str](), False
    for line in text.splitlines():
        key = _KEY.match(line)
        if key:
            parents = [*parents[: len(key.group(1)) // 2], key.group(2)]
            if described:
                found.add(".".join(parents))
        described = bool(re.match(r" *# -- \S", line))
    return found


def leaves(value: Any, path: str = "") -> Iterator[str]:
    """Return the dotted paths of all values that are no map or an empty map."""
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from leaves(below, f"{path}.{key}".removeprefix("."))
    else:
        yield path
