"""Convert pulumi-aws values into the shape of a botocore operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.model import Shape

Renames = Mapping[str, str]


def to_request(value: Any, shape: Shape, renames: Renames, path: str = "") -> Any:
    """Convert key spelling, tag maps, and the strings that pulumi-aws uses for tri-state booleans.

    ``renames`` maps dotted pulumi paths (without list indexes) to member names, if more than the case of the first letter
    differs. KeyError means that a rename is missing.
    """
    if shape.type_name == "structure":
        request = {}
        for key, item in value.items():
            where = f"{path}.{key}" if path else key
            member = renames.get(where) or next(name for name in (key[0].upper() + key[1:], key) if name in shape.members)
            request[member] = to_request(item, shape.members[member], renames, where)
        return request
    if shape.type_name == "list":
        if isinstance(value, Mapping):
            return [{"Key": key, "Value": item} for key, item in sorted(value.items())]
        return [to_request(item, shape.member, renames, path) for item in value]
    if shape.type_name == "boolean" and isinstance(value, str):
        return value == "true"
    return value
