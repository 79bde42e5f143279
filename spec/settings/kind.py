"""The parts that a kind of value is made of: its check, its words for people, its JSON Schema.

Every sentence is `<what is wrong>; <what is valid>`. A kind also says what a JSON Schema can hold of it and what the
reference of the stack file prints (docs/stack-file.md).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from spec.problem import describe


def refuse(message: str) -> NoReturn:
    """Make a validator say exactly this sentence."""
    raise PydanticCustomError("sentence", "{sentence}", {"sentence": message})


@dataclass(frozen=True, eq=False)
class Kind:
    """Annotation of a field: `check` returns the value or refuses it, `valid` says in words which values there are.

    `schema` is what a JSON Schema can say of it. `alone`: in the place of pydantic's own check of the type, for sentences
    of our own about values of another type; else after it.
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
    """Return the value, which has to be text. `quote`: a number is told to be put in quotes."""
    if not isinstance(value, str):
        number = quote and isinstance(value, int | float)
        refuse(f"{describe(value)}; {valid}" + (", in quotes" if number else ""))
    return value


def between(low: int, high: int, unit: str) -> Kind:
    """Return the kind of whole numbers from `low` to `high`, which are numbers of `unit`."""
    return _in_range(low, high, f"{low} to {high} {unit}", str)


def fraction_between(low: float, high: float, unit: str) -> Kind:
    """Return the kind of numbers from `low` to `high`, which are numbers of `unit`."""
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
    """Return the kind of texts that match a pattern as a whole; anything else is `'<text>' <wrong>; <valid>`.

    `\\d` and `\\w` in it are of ASCII. `quote`: a number is told to be put in quotes. `number`: the sentence about a number,
    `{value}` in it. `also_wrong`: pattern of a text that is mistaken in a way of its own, and what is wrong with it.
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
    """Return the kind of keys of a mapping that match a pattern as a whole."""
    compiled = re.compile(pattern, re.ASCII)

    def check(key: str) -> str:
        if not compiled.fullmatch(key):
            refuse(f"'{key}' {wrong}; {valid}")
        return key

    return Kind(check, valid, {"pattern": f"^(?:{pattern})$"}, alone=False)
