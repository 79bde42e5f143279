"""The values of a chart: all of them, and those that values.yaml describes in a `# --` comment."""

import re
from collections.abc import Iterator
from typing import Any

_KEY = re.compile(r"^( *)([A-Za-z0-9_]+):")


def documented(text: str) -> set[str]:
    """Dotted paths of the values that have a comment."""
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
    """Dotted paths of all values that are no map; an empty map is one too."""
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from leaves(below, f"{path}.{key}".removeprefix("."))
    else:
        yield path
