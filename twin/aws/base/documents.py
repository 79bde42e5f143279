"""Policy documents: read, compare and measure them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from twin.aws.base.errors import Problem
from twin.aws.base.handler import UNKNOWN, Values


def parse(text: str) -> dict[str, Any]:
    """Parse a policy document. Raises ValueError if it is no JSON object or nests deeper than any policy."""
    try:
        document = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(document, dict):
        raise ValueError("not a JSON object")
    return document


def statements(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the statements as a list; a document may hold a single one without a list."""
    found = document.get("Statement", [])
    return found if isinstance(found, list) else [found]


def as_list(value: Any) -> list[Any]:
    """Return a list: AWS writes a list with one item as the item itself."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def problems(inputs: Values, key: str, *, limit: int) -> Iterator[Problem]:
    """Yield a problem unless the policy, if set, is a JSON object within `limit` characters, not counting white space.

    Limits: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html.
    """
    value = inputs.get(key)
    if value is None or UNKNOWN in str(value):
        return
    try:
        parse(value)
    except ValueError as error:
        yield Problem(key, f"not a JSON policy document: {error}")
    length = len("".join(value.split()))
    if length > limit:
        yield Problem(key, f"{length} characters without white space; at most {limit}")


def same(left: str, right: str) -> bool:
    """Return whether two documents mean the same."""
    return bool(json.loads(left) == json.loads(right))
