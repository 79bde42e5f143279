"""The building blocks of value types: check, description and JSON Schema.

Every message is `<what is wrong>; <what is valid>`. A type also defines its part of the JSON Schema and the text in the
stack-file reference (docs/stack-file.md).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from spec.problem import describe


def refuse(message: str) -> NoReturn:
    """Raise a validation error with exactly this message."""
    raise PydanticCustomError("sentence", "{sentence}", {"sentence": message})


@dataclass(frozen=True, eq=False)
class Kind:
    """Annotation of a field: `check` returns the value or refuses it, and `valid` describes the valid values.

    `schema` is its part of the JSON Schema. With `alone`, `check` replaces pydantic's type check, so our own messages also
    cover values of another type. Otherwise it runs after pydantic's check.
    """

    check: Callable[[Any], Any]
    valid: str
    schema: Mapping[str, Any] = field(default_factory=dict)
    alone: bool = True

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        if self.alone:
            return core_schema.no_info_plain_validator_function(self.check)
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return dict(self.schema) if self.alone else {**handler(core), **self.schema}


def text_of(value: Any, valid: str, *, quote: bool = False) -> str:
    """Return the value, which has to be text. With `quote`, the message for a number says to quote it."""
    if not isinstance(value, str):
        number = quote and isinstance(value, int | float)
        refuse(f"{describe(value)}; {valid}" + (", in quotes" if number else ""))
    return value


def between(low: int, high: int, unit: str) -> Kind:
    """Return the type of integers from `low` to `high` with this unit."""
    return _in_range(low, high, f"{low} to {high} {unit}", str)


def fraction_between(low: float, high: float, unit: str) -> Kind:
    """Return the type of numbers from `low` to `high` with this unit."""
    return _in_range(low, high, f"{low:.10g} to {high:.10g} {unit}", "{:g}".format)


def _in_range(low: float, high: float, valid: str, write: Callable[[Any], str]) -> Kind:
    def check(value: Any) -> Any:
        if not low <= value <= high:
            refuse(f"{write(value)} is out of range; use {valid}")
        return value

    return Kind(check, valid, {"minimum": low, "maximum": high}, alone=False)


def matching(
    pattern: str,
    wrong: str,
    valid: str,
    *,
    quote: bool = False,
    number: str | None = None,
    also_wrong: Mapping[str, str] | None = None,
) -> Kind:
    """Return the type of texts that match the whole pattern. For others the message is `'<text>' <wrong>; <valid>`.

    `\\d` and `\\w` in the pattern match only ASCII. With `quote`, the message for a number says to quote it. `number` is the
    message for a number, with `{value}` in it. `also_wrong` maps patterns of specific mistakes to their messages.
    """
    compiled = re.compile(pattern, re.ASCII)
    others = {re.compile(other): sentence for other, sentence in (also_wrong or {}).items()}

    def check(value: Any) -> str:
        if number is not None and isinstance(value, int | float) and not isinstance(value, bool):
            refuse(number.format(value=value))
        text = text_of(value, valid, quote=quote)
        for other, sentence in others.items():
            if other.search(text):
                refuse(f"'{text}' {sentence}; {valid}")
        if not compiled.fullmatch(text):
            refuse(f"'{text}' {wrong}; {valid}")
        return text

    return Kind(check, valid, {"type": "string", "pattern": f"^(?:{pattern})$"})


def key_matching(pattern: str, wrong: str, valid: str) -> Kind:
    """Return the type of mapping keys that match the whole pattern."""
    compiled = re.compile(pattern, re.ASCII)

    def check(key: str) -> str:
        if not compiled.fullmatch(key):
            refuse(f"'{key}' {wrong}; {valid}")
        return key

    return Kind(check, valid, {"pattern": f"^(?:{pattern})$"}, alone=False)
