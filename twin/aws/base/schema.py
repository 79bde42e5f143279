"""Read from the installed pulumi-aws SDK the inputs of a type, with their types, and its outputs.

The official provider checks inputs against its schema. The same facts are in the SDK's argument classes, so that an
upgrade of pulumi-aws moves this check along with the program. ``pulumi._types`` is the SDK's own reflection; it has
no public name.
"""

from __future__ import annotations

import collections.abc
import importlib
import inspect
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pulumi
from pulumi import _types as reflection
from pulumi.runtime.rpc import UNKNOWN

from twin.aws.base.errors import Problem, UnsupportedType


def problems(token: str, inputs: Mapping[str, Any]) -> list[Problem]:
    """Return the unknown keys, wrong types and missing required properties, nested ones too."""
    return list(_object_problems(inputs, _arguments_class(token), ""))


@cache
def input_names(token: str) -> frozenset[str]:
    """Return the input keys of the type, as the provider spells them."""
    return frozenset(reflection.input_type_types(_arguments_class(token)))


@cache
def output_names(token: str) -> frozenset[str]:
    """Return the output keys of the type, inputs included."""
    return frozenset(reflection._types_from_py_properties(_resource_class(token)))


@cache
def _resource_class(token: str) -> type:
    package, path, name = token.split(":")
    try:
        if package != "aws":
            raise ImportError(package)
        module = importlib.import_module(f"pulumi_aws.{path.split('/')[0]}")
        resource: type = getattr(module, name)
    except (ImportError, AttributeError):
        raise UnsupportedType(f"{token} is not a type of the installed pulumi-aws") from None
    return resource


@cache
def _arguments_class(token: str) -> type:
    resource = _resource_class(token)
    module = importlib.import_module(resource.__module__)
    # The code generator says InitArgs where a nested type already has the name Args.
    arguments: type = getattr(module, f"{resource.__name__}InitArgs", None) or getattr(module, f"{resource.__name__}Args")
    return arguments


def _object_problems(value: Mapping[str, Any], arguments: type, path: str) -> Iterator[Problem]:
    hints = reflection.input_type_types(arguments)
    prefix = f"{path}." if path else ""
    for key, item in value.items():
        if key not in hints:
            yield Problem(f"{prefix}{key}", f"unknown property; known: {', '.join(sorted(hints))}")
        else:
            yield from _value_problems(item, hints[key], f"{prefix}{key}")
    for key in _required(arguments):
        if value.get(key) is None:
            yield Problem(f"{prefix}{key}", "required property is missing")


@cache
def _required(arguments: type) -> tuple[str, ...]:
    names = reflection.input_type_py_to_pulumi_names(arguments)
    parameters = inspect.signature(arguments.__init__).parameters  # type: ignore[misc]
    return tuple(names[name] for name, item in parameters.items() if name in names and item.default is item.empty)


def _value_problems(value: Any, hint: Any, path: str) -> Iterator[Problem]:
    if value is None or value == UNKNOWN:
        return
    options = _options(hint)
    nested = [option for option in options if isinstance(option, type) and reflection.is_input_type(option)]
    if isinstance(value, Mapping) and nested:
        yield from _object_problems(value, nested[0], path)
        return
    for option in options:
        origin = typing.get_origin(option)
        if isinstance(value, Mapping) and origin is collections.abc.Mapping:
            for key, item in value.items():
                yield from _value_problems(item, typing.get_args(option)[1], f"{path}[{key!r}]")
            return
        if isinstance(value, list) and origin is collections.abc.Sequence:
            for index, item in enumerate(value):
                yield from _value_problems(item, typing.get_args(option)[0], f"{path}[{index}]")
            return
        if _is_scalar(value, option):
            return
    yield Problem(path, f"{_show(value)} where {' or '.join(sorted({_name(o) for o in options}))} is expected")


def _options(hint: Any) -> list[Any]:
    """Return the plain alternatives of ``Input[T]``: without Awaitable, Output and None."""
    if typing.get_origin(hint) is not typing.Union:
        return [hint]
    plain = []
    for option in typing.get_args(hint):
        origin = typing.get_origin(option)
        if option is type(None) or origin is collections.abc.Awaitable or pulumi.Output in (option, origin):
            continue
        plain += _options(option)
    return plain


def _is_scalar(value: Any, option: Any) -> bool:
    if option is Any:
        return True
    if option is bool or isinstance(value, bool):
        return option is bool and isinstance(value, bool)
    if option is float:
        return isinstance(value, (int, float))
    return option in (str, int) and isinstance(value, option)


def _name(option: Any) -> str:
    origin = typing.get_origin(option)
    if origin is collections.abc.Sequence:
        return "a list"
    if origin is collections.abc.Mapping or (isinstance(option, type) and reflection.is_input_type(option)):
        return "an object"
    return {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}.get(
        option, getattr(option, "__name__", str(option))
    )


def _show(value: Any) -> str:
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, list) else repr(value)
