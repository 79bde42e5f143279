"""The reference of the chart's values, read from values.yaml: each key, its default and its `# --` comment."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

KEY = re.compile(r"^( *)([A-Za-z0-9_]+):")


@dataclass(frozen=True)
class Value:
    """One documented value: dotted path, default and description."""

    path: str
    default: Any
    description: str

    def row(self) -> str:
        """The value's row of the table in README.md."""
        return f"| `{self.path}` | `{json.dumps(self.default)}` | {self.description} |"


def documented(text: str) -> list[Value]:
    """Every value of values.yaml that has a `# --` comment, in the file's order."""
    defaults = yaml.safe_load(text)
    found = []
    parents: list[str] = []
    description = None
    for line in text.splitlines():
        comment = re.match(r"^ *# -- (.*)$", line)
        key = KEY.match(line)
        if comment:
            description = comment.group(1)
        elif key:
            parents = [*parents[: len(key.group(1)) // 2], key.group(2)]
            if description:
                found.append(Value(".".join(parents), _at(defaults, parents), description))
            description = None
    return found


def leaves(value: Any, path: str = "") -> Iterator[str]:
    """Dotted paths of all values that are no map; an empty map is one too."""
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from leaves(below, f"{path}.{key}".removeprefix("."))
    else:
        yield path


def _at(values: Any, path: list[str]) -> Any:
    for key in path:
        values = values[key]
    return values
