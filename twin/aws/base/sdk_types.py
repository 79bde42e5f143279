"""Read a type's inputs, their types, and its outputs from the installed pulumi-aws SDK.

``pulumi._types`` is the SDK's own reflection; it has no public name. To describe one type, the SDK builds the classes of its
whole service, which takes a preview one second of processor time. So the results are cached on this machine, per version.
"""

from __future__ import annotations

import collections.abc
import contextlib
import hashlib
import importlib
import inspect
import json
import os
import typing
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, TypedDict

from spec.files import write_whole
from twin.aws.base.errors import UnsupportedType

Alternative = str | list[Any]
"""A value's type in JSON: a Python scalar name ("str", "bool", "Any" …), `["list", alternatives]`, `["map", alternatives]`
or `["object", name]`.
"""


class ObjectType(TypedDict):
    """An object's properties by provider key, each with its alternative types."""

    properties: dict[str, list[Alternative]]
    required: list[str]


class ResourceType(TypedDict):
    """A resource type; `objects` holds the nested object types by name."""

    inputs: ObjectType
    outputs: list[str]
    objects: dict[str, ObjectType]


@cache
def resource_type(token: str) -> ResourceType:
    """Return the type from the cache, or read it from the SDK. Raises UnsupportedType."""
    kept = _directory() / f"{token.replace('/', '.').replace(':', '.')}.json"
    try:
        found: ResourceType = json.loads(kept.read_bytes())
    except (OSError, ValueError):
        found = read(token)
        with contextlib.suppress(OSError):  # the user may have no cache folder
            write_whole(kept, json.dumps(found).encode())
    return found


@cache
def _directory() -> Path:
    """Return the cache folder for these SDK versions and this module."""
    versions = [metadata.version(name) for name in ("pulumi", "pulumi-aws")]
    made_from = hashlib.sha256("\n".join([*versions, Path(__file__).read_text(encoding="utf-8")]).encode())
    folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return folder / "triton-eks" / "aws-types" / made_from.hexdigest()[:12]


def read(token: str) -> ResourceType:
    """Read the type from the SDK. Raises UnsupportedType."""
    from pulumi import _types as reflection

    package, path, name = token.split(":")
    try:
        if package != "aws":
            raise ImportError(package)
        resource: type = getattr(importlib.import_module(f"pulumi_aws.{path.split('/')[0]}"), name)
    except (ImportError, AttributeError):
        raise UnsupportedType(f"{token} is not a type of the installed pulumi-aws") from None
    module = importlib.import_module(resource.__module__)
    # The code generator uses InitArgs if a nested type already has the name Args.
    arguments: type = getattr(module, f"{name}InitArgs", None) or getattr(module, f"{name}Args")
    objects: dict[str, ObjectType] = {}
    inputs = _object(arguments, objects)
    return {"inputs": inputs, "outputs": sorted(reflection._types_from_py_properties(resource)), "objects": objects}


def _object(arguments: type, objects: dict[str, ObjectType]) -> ObjectType:
    from pulumi import _types as reflection

    names = reflection.input_type_py_to_pulumi_names(arguments)
    parameters = inspect.signature(arguments.__init__).parameters  # type: ignore[misc]
    hints = reflection.input_type_types(arguments)
    return {
        "properties": {key: _alternatives(hint, objects) for key, hint in hints.items()},
        "required": [names[name] for name, item in parameters.items() if name in names and item.default is item.empty],
    }


def _alternatives(hint: Any, objects: dict[str, ObjectType]) -> list[Alternative]:
    """Return the plain alternatives of ``Input[T]``, without Awaitable, Output and None."""
    from pulumi import Output
    from pulumi import _types as reflection

    origin = typing.get_origin(hint)
    if origin is typing.Union:
        options = typing.get_args(hint)
        waited_for = (collections.abc.Awaitable, Output)
        plain = [one for one in options if one is not type(None) and (typing.get_origin(one) or one) not in waited_for]
        return [alternative for one in plain for alternative in _alternatives(one, objects)]
    if origin is collections.abc.Sequence:
        return [["list", _alternatives(typing.get_args(hint)[0], objects)]]
    if origin is collections.abc.Mapping:
        return [["map", _alternatives(typing.get_args(hint)[1], objects)]]
    if isinstance(hint, type) and reflection.is_input_type(hint):
        if hint.__name__ not in objects:
            objects[hint.__name__] = {"properties": {}, "required": []}  # the type may contain itself
            objects[hint.__name__] = _object(hint, objects)
        return [["object", hint.__name__]]
    return [getattr(hint, "__name__", str(hint))]
