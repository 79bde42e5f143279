"""Evaluate a call against a role's policies as IAM does, for the condition kinds that this project uses.

An explicit Deny wins; otherwise one Allow is enough. Unsupported elements raise an error, never a guess. IAM's rules:
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from spec.iam_policy import Statement

Context = Mapping[str, str | tuple[str, ...]]
"""Condition keys with their values; a key with several values, such as `aws:TagKeys`, has a tuple."""


@dataclass(frozen=True)
class Call:
    """One action on one resource; AWS checks each resource of a call separately. `context`: condition keys and values.

    `by`: the stack's resource that causes the call.
    """

    action: str
    resource: str
    context: Context = field(default_factory=dict)
    by: str = ""

    def __str__(self) -> str:
        return f"{self.by}: {self.action} on {self.resource}"


def refusals(statements: Sequence[Statement], calls: Iterable[Call]) -> Iterator[str]:
    """Yield a sentence for each refused call: the call, and the reason why each statement with its action does not match."""
    for call in calls:
        denied = [one for one in statements if one["Effect"] == "Deny" and _misses(one, call) == []]
        if denied:
            yield f"{call}: denied by {', '.join(one['Sid'] for one in denied)}"
            continue
        near = [one for one in statements if one["Effect"] == "Allow" and is_any(call.action, one["Action"])]
        missed = {one["Sid"]: _misses(one, call) for one in near}
        if not any(found == [] for found in missed.values()):
            told = "; ".join(f"{sid}: {', '.join(found)}" for sid, found in missed.items())
            yield f"{call}: {told or 'no statement has the action'}"


def _misses(statement: Statement, call: Call) -> list[str]:
    """Return why the statement does not match the call; empty if it matches."""
    unknown = statement.keys() - {"Sid", "Effect", "Action", "Resource", "Condition"}
    if unknown:
        raise ValueError(f"{statement['Sid']}: {', '.join(sorted(unknown))} is not evaluated here")
    found = [] if is_any(call.action, statement["Action"]) else ["another action"]
    if not any(_glob(pattern).fullmatch(call.resource) for pattern in statement["Resource"]):
        found.append("another resource")
    for operator, wanted in statement.get("Condition", {}).items():
        for key, values in wanted.items():
            if not holds(operator, call.context.get(key), values if isinstance(values, list) else [values]):
                found.append(f"{operator} {key} {values}, and it is {call.context.get(key)}")
    return found


def holds(operator: str, value: str | tuple[str, ...] | None, wanted: list[str]) -> bool:
    """Return whether a condition holds for its key's value. Raises ValueError for an unknown operator."""
    if operator == "Null":
        return (value is None) == (wanted == ["true"])
    if operator == "ForAllValues:StringEquals":
        return {value} <= set(wanted) if isinstance(value, str) else set(value or ()) <= set(wanted)
    if operator == "ForAnyValue:StringLike":
        values = (value,) if isinstance(value, str) else value or ()
        return any(_is_like(one, pattern) for one in values for pattern in wanted)
    if isinstance(value, tuple):
        raise ValueError(f"{operator} of several values is not evaluated here")
    if operator in ("BoolIfExists", "StringEqualsIfExists"):
        return value is None or value in wanted
    if operator == "StringNotEquals":
        return value not in wanted
    match: Any = {
        "StringEquals": str.__eq__,
        "StringEqualsIgnoreCase": lambda one, other: one.lower() == other.lower(),
        "StringLike": _is_like,
        "ArnEquals": _arn_is_like,
        "ArnLike": _arn_is_like,
    }.get(operator)
    if match is None:
        raise ValueError(f"the operator {operator} is not evaluated here")
    return value is not None and any(match(value, one) for one in wanted)


def is_any(action: str, patterns: Sequence[str]) -> bool:
    """Return whether an action matches a pattern; IAM ignores the case of actions."""
    return any(_is_like(action.lower(), pattern.lower()) for pattern in patterns)


def _is_like(value: str, pattern: str) -> bool:
    return _glob(pattern).fullmatch(value) is not None


def _arn_is_like(value: str, pattern: str) -> bool:
    parts, patterns = value.split(":", 5), pattern.split(":", 5)
    return len(parts) == len(patterns) and all(map(_is_like, parts, patterns))


@cache
def _glob(pattern: str) -> re.Pattern[str]:
    if "${" in pattern:
        raise ValueError(f"the variable in {pattern} is not evaluated here")
    return re.compile("".join({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in pattern))
