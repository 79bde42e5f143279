"""Policy documents: what AWS refuses in a policy before it looks at the resource that carries it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from twin.aws.base.errors import Problem
from twin.aws.base.handler import UNKNOWN, Values

_STATEMENT_KEYS = frozenset(
    {"Sid", "Effect", "Principal", "NotPrincipal", "Action", "NotAction", "Resource", "NotResource", "Condition"}
)


def parse(text: str) -> dict[str, Any]:
    """Return the document; ValueError when it is not a JSON object, or one that nests deeper than any policy."""
    try:
        document = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(document, dict):
        raise ValueError("not a JSON object")
    return document


def statements(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the statements; a single one may stand without its list."""
    found = document.get("Statement", [])
    return found if isinstance(found, list) else [found]


def as_list(value: Any) -> list[Any]:
    """Return a list: AWS writes a list of one as the item itself."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def size(text: str) -> int:
    """Return the number of characters as IAM counts them: without white space."""
    return len("".join(text.split()))


def json_problems(inputs: Values, key: str) -> Iterator[Problem]:
    """Yield a problem unless the value of ``key``, if any, is a JSON object in a string."""
    value = inputs.get(key)
    if value is None or value == UNKNOWN:
        return
    if not isinstance(value, str):
        yield Problem(key, "a JSON document in a string is expected")
        return
    try:
        parse(value)
    except ValueError as error:
        yield Problem(key, f"not a JSON policy document: {error}")


def policy_problems(inputs: Values, key: str, *, limit: int, resource: bool, principal: bool) -> Iterator[Problem]:
    """Yield what breaks the grammar of an IAM policy: version, statement keys, effect, size in characters."""
    value = inputs.get(key)
    if value is None or value == UNKNOWN or UNKNOWN in str(value):
        return
    syntax = list(json_problems(inputs, key))
    yield from syntax
    if syntax:
        return
    if size(value) > limit:
        yield Problem(key, f"{size(value)} characters without white space; at most {limit}")
    document = parse(value)
    if document.get("Version") != "2012-10-17":
        yield Problem(f"{key}.Version", f"{document.get('Version')!r}; use 2012-10-17")
    if not statements(document):
        yield Problem(f"{key}.Statement", "required")
    for index, statement in enumerate(statements(document)):
        yield from _statement_problems(statement, f"{key}.Statement[{index}]", resource, principal)


def _statement_problems(statement: Any, where: str, resource: bool, principal: bool) -> Iterable[Problem]:
    if not isinstance(statement, dict):
        yield Problem(where, "a statement is an object")
        return
    for name in sorted(statement.keys() - _STATEMENT_KEYS):
        yield Problem(f"{where}.{name}", "unknown statement element")
    if statement.get("Effect") not in ("Allow", "Deny"):
        yield Problem(f"{where}.Effect", f"{statement.get('Effect')!r} is not Allow or Deny")
    if "Action" not in statement and "NotAction" not in statement:
        yield Problem(f"{where}.Action", "required")
    has_principal = "Principal" in statement or "NotPrincipal" in statement
    if principal != has_principal:
        yield Problem(f"{where}.Principal", "required" if principal else "not allowed in an identity policy")
    has_resource = "Resource" in statement or "NotResource" in statement
    if resource != has_resource:
        yield Problem(f"{where}.Resource", "required" if resource else "not allowed in a trust policy")
