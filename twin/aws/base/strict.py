"""Check enum, pattern and upper bounds of botocore's models, which botocore leaves to the service.

botocore validates types, required members and lower bounds before it sends. AWS refuses the other violations; moto accepts
most of them (docs/facts/moto.md#models-of-botocore). The hook runs on every call of a client of the session.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import boto3
from botocore.model import OperationModel, Shape

from twin.aws.base.errors import HandlerError

_LISTED_CHOICES = 12
_CLOSEST_CHOICES = 3


class StrictError(HandlerError):
    """The service would refuse this call's parameters."""


def install(session: boto3.Session) -> None:
    """Check every call of every client made from ``session`` from now on."""
    session.events.register("provide-client-params.*.*", _check_call)


def check_values(clients: Callable[[str], Any], model: str, inputs: Mapping[str, Any], members: Mapping[str, str]) -> None:
    """Refuse values that AWS would refuse, without a call, for types that moto lacks or does not need.

    `model` is an operation, or a member of its input: `budgets.CreateBudget.Budget`. Each pulumi-aws input is checked
    against the member of the same name, or of its name in `members`. Inputs without a member are not checked. Raises
    StrictError.
    """
    service, operation, *path = model.split(".")
    shape = clients(service).meta.service_model.operation_model(operation).input_shape
    for member in path:
        shape = (shape.member if shape.type_name == "list" else shape).members[member]
    found = list(_violations(_alike(inputs, shape, members), shape, ""))
    if found:
        raise StrictError(f"{operation}: " + "; ".join(found))


def _alike(value: Any, shape: Shape, members: Mapping[str, str]) -> Any:
    """Return the members of a value that the shape has, matched without case and spelled as in the shape."""
    if shape.type_name == "structure" and isinstance(value, Mapping):
        names = {name.lower(): name for name in shape.members}
        pairs = ((names.get(members.get(key, key).lower()), item) for key, item in value.items())
        return {name: _alike(item, shape.members[name], {}) for name, item in pairs if name}
    if shape.type_name == "list" and isinstance(value, Mapping) and len(value) == 1:
        (value,) = value.values()  # an object with one list wraps a nested list
    if shape.type_name == "list" and isinstance(value, list):
        return [_alike(item, shape.member, {}) for item in value]
    return value


def _check_call(params: dict[str, Any], model: OperationModel, **_: Any) -> None:
    if model.input_shape is None:
        return
    found = list(_violations(params, model.input_shape, ""))
    if found:
        raise StrictError(f"{model.name}: " + "; ".join(found))


def _violations(value: Any, shape: Shape, path: str) -> Iterator[str]:
    if value is None:
        return
    if shape.type_name == "structure" and isinstance(value, dict):
        for key, item in value.items():
            if key in shape.members:
                yield from _violations(item, shape.members[key], f"{path}.{key}" if path else key)
    elif shape.type_name == "list" and isinstance(value, (list, tuple)):
        yield from _too_many(len(value), shape, path, "items")
        for index, item in enumerate(value):
            yield from _violations(item, shape.member, f"{path}[{index}]")
    elif shape.type_name == "map" and isinstance(value, dict):
        yield from _too_many(len(value), shape, path, "entries")
        for key, item in value.items():
            yield from _violations(key, shape.key, f"{path} key {key!r}")
            yield from _violations(item, shape.value, f"{path}[{key!r}]")
    elif shape.type_name == "string" and isinstance(value, str):
        yield from _bad_string(value, shape, path)
    elif shape.type_name in ("integer", "long") and isinstance(value, int):
        maximum = shape.metadata.get("max")
        if maximum is not None and value > maximum:
            yield f"{path}: {value} is more than {maximum}"


def _too_many(count: int, shape: Shape, path: str, noun: str) -> Iterator[str]:
    maximum = shape.metadata.get("max")
    if maximum is not None and count > maximum:
        yield f"{path}: {count} {noun}, at most {maximum}"


def _bad_string(value: str, shape: Shape, path: str) -> Iterator[str]:
    allowed = shape.enum
    if allowed and value not in allowed:
        yield f"{path}: {value!r} is not one of {_choices(value, allowed)}"
        return
    maximum = shape.metadata.get("max")
    if maximum is not None and len(value) > maximum:
        yield f"{path}: {len(value)} characters, at most {maximum}"
    pattern = _compiled(shape.metadata.get("pattern"))
    if pattern is not None and not pattern.fullmatch(value):
        yield f"{path}: {value!r} does not match {pattern.pattern}"


def _choices(value: str, allowed: Sequence[str]) -> str:
    if len(allowed) <= _LISTED_CHOICES:
        return ", ".join(sorted(allowed))
    closest = sorted(difflib.get_close_matches(value, allowed, n=_CLOSEST_CHOICES))
    return "the known values" + (f", such as {', '.join(closest)}" if closest else "")


@cache
def _compiled(pattern: str | None) -> re.Pattern[str] | None:
    """Return the pattern, or None if Python's ``re`` does not know the syntax (Java classes such as ``\\p{L}``)."""
    if not pattern:
        return None
    try:
        return re.compile(pattern)
    except re.error:
        return None
