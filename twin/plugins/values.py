"""Convert property values between the engine's gRPC form and plain Python.

A property bag is a protobuf ``Struct``. Values that JSON does not have (unknown, secret, output, asset, resource reference)
are marked inside it. A sentinel string marks unknown values, and dictionaries with a signature mark the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.struct_pb2 import ListValue, Struct, Value

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""Marks a value that is not known yet; it occurs only in previews."""

SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"
OUTPUT = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
RESOURCE = "5cf8f73096256a8f31e491e813e4eb8e"
ASSET = "c44067f5952c0a294b673a41bacd8c17"

Values = dict[str, Any]


def from_struct(struct: Struct) -> Values:
    """Return a property bag in plain Python: whole numbers as ints, nulls left out like in the engine's own SDKs."""
    return {key: _from_value(value) for key, value in struct.fields.items() if value.WhichOneof("kind") != "null_value"}


def _from_value(value: Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return from_struct(value.struct_value)
    if kind == "list_value":
        return [_from_value(item) for item in value.list_value.values]
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() else number
    if kind in ("string_value", "bool_value"):
        return getattr(value, kind)
    return None


def to_struct(values: Mapping[str, Any]) -> Struct:
    """Return the property bag of plain Python values; None is left out. Raises TypeError for types not in JSON."""
    struct = Struct()
    for key, value in values.items():
        if value is not None:
            struct.fields[key].CopyFrom(to_value(value))
    return struct


def to_value(value: Any) -> Value:
    """Return one value of a property bag."""
    if value is None:
        return Value(null_value=0)  # type: ignore[arg-type]
    if isinstance(value, bool):
        return Value(bool_value=value)
    if isinstance(value, (int, float)):
        return Value(number_value=value)
    if isinstance(value, str):
        return Value(string_value=value)
    if isinstance(value, Mapping):
        return Value(struct_value=to_struct(value))
    if isinstance(value, (list, tuple)):
        return Value(list_value=ListValue(values=[to_value(item) for item in value]))
    raise TypeError(f"a property value cannot be a {type(value).__name__}: {value!r}")


def secret(value: Any) -> Values:
    """Return ``value`` marked as a secret."""
    return {SIGNATURE: SECRET, "value": value}


def resource_reference(urn: str, id: str) -> Values:
    """Return a reference to a custom resource, in the form of component outputs. ``id`` may be UNKNOWN."""
    return {SIGNATURE: RESOURCE, "urn": urn, "id": id}


def is_asset(value: Any) -> bool:
    """Return whether the value is a file or string asset."""
    return isinstance(value, Mapping) and value.get(SIGNATURE) == ASSET


def without_nulls(value: Any) -> Any:
    """Return the value without null keys, at any depth: the engine and Kubernetes treat them as absent."""
    if isinstance(value, Mapping):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def has_unknown(value: Any) -> bool:
    """Return whether any part of the value is not known yet."""
    return any(item == UNKNOWN for item in _leaves(value))


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


@dataclass
class Unwrapped:
    """A component's inputs without their marks: plain values, and the information of the marks."""

    value: Any
    secret: bool = False
    dependencies: set[str] = field(default_factory=set)


def unwrap(value: Any) -> Unwrapped:
    """Strip secret and output marks, at any depth. Assets and resource references stay unchanged."""
    found = Unwrapped(None)
    found.value = _strip(value, found)
    return found


def _strip(value: Any, found: Unwrapped) -> Any:
    if isinstance(value, list):
        return [_strip(item, found) for item in value]
    if not isinstance(value, Mapping):
        return value
    signature = value.get(SIGNATURE)
    if signature == SECRET:
        found.secret = True
        return _strip(value.get("value"), found)
    if signature == OUTPUT:
        found.secret = found.secret or bool(value.get("secret"))
        found.dependencies.update(value.get("dependencies") or [])
        return _strip(value["value"], found) if "value" in value else UNKNOWN
    if signature is not None:
        return dict(value)
    return {key: _strip(item, found) for key, item in value.items()}


def strip_secrets(value: Any) -> Any:
    """Return the value without its secret marks."""
    return unwrap(value).value


def annotate_secrets(values: Values, marked: Mapping[str, Any]) -> Values:
    """Return ``values`` with each property marked secret that holds a secret in ``marked``, like the engine."""
    return {key: _annotate(value, marked.get(key)) for key, value in values.items()}


def _annotate(value: Any, marked: Any) -> Any:
    if isinstance(marked, Mapping) and SIGNATURE not in marked and isinstance(value, Mapping) and SIGNATURE not in value:
        return annotate_secrets(dict(value), marked)
    needs_mark = value is not None and unwrap(marked).secret and not unwrap(value).secret
    return secret(value) if needs_mark else value
