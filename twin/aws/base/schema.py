"""Check the inputs of a type against the installed pulumi-aws SDK.

The official provider checks inputs against its schema. The SDK's argument classes hold the same facts, so this check follows
each upgrade of pulumi-aws.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pulumi.runtime.rpc import UNKNOWN

from twin.aws.base.errors import Problem
from twin.aws.base.sdk_types import Alternative, ObjectType, resource_type

_NAMES = {"str": "a string", "int": "a whole number", "float": "a number", "bool": "true or false"}
_KINDS = {"list": "a list", "map": "an object", "object": "an object"}

Objects = Mapping[str, ObjectType]


def problems(token: str, inputs: Mapping[str, Any]) -> list[Problem]:
    """Return unknown keys, wrong types and missing required properties, also nested ones."""
    type_ = resource_type(token)
    return list(_object_problems(inputs, type_["inputs"], type_["objects"], ""))


def input_names(token: str) -> frozenset[str]:
    """Return the input keys of the type in the provider's spelling."""
    return frozenset(resource_type(token)["inputs"]["properties"])


def output_names(token: str) -> frozenset[str]:
    """Return the output keys of the type, including the inputs."""
    return frozenset(resource_type(token)["outputs"])


def _object_problems(value: Mapping[str, Any], type_: ObjectType, objects: Objects, path: str) -> Iterator[Problem]:
    properties = type_["properties"]
    prefix = f"{path}." if path else ""
    for key, item in value.items():
        if key not in properties:
            yield Problem(f"{prefix}{key}", f"unknown property; known: {', '.join(sorted(properties))}")
        else:
            yield from _value_problems(item, properties[key], objects, f"{prefix}{key}")
    for key in type_["required"]:
        if value.get(key) is None:
            yield Problem(f"{prefix}{key}", "required property is missing")


def _value_problems(value: Any, alternatives: list[Alternative], objects: Objects, path: str) -> Iterator[Problem]:
    if value is None or value == UNKNOWN:
        return
    # If several alternatives are objects, use the first, as the SDK does.
    structured = {one[0]: one[1] for one in reversed(alternatives) if isinstance(one, list)}
    if isinstance(value, Mapping) and "object" in structured:
        yield from _object_problems(value, objects[structured["object"]], objects, path)
    elif isinstance(value, Mapping) and "map" in structured:
        for key, item in value.items():
            yield from _value_problems(item, structured["map"], objects, f"{path}[{key!r}]")
    elif isinstance(value, list) and "list" in structured:
        for index, item in enumerate(value):
            yield from _value_problems(item, structured["list"], objects, f"{path}[{index}]")
    elif not any(_is_scalar(value, one) for one in alternatives):
        expected = " or ".join(sorted({_name(one) for one in alternatives}))
        yield Problem(path, f"{_show(value)} where {expected} is expected")


def _is_scalar(value: Any, alternative: Alternative) -> bool:
    if alternative == "Any":
        return True
    if isinstance(value, bool):
        return alternative == "bool"
    kinds: dict[str, tuple[type, ...]] = {"float": (int, float), "str": (str,), "int": (int,)}
    return isinstance(alternative, str) and isinstance(value, kinds.get(alternative, ()))


def _name(alternative: Alternative) -> str:
    return _NAMES.get(alternative, alternative) if isinstance(alternative, str) else _KINDS[alternative[0]]


def _show(value: Any) -> str:
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, list) else repr(value)
