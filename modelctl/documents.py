"""Read JSON into its type, or refuse it with all mistakes, a sentence each."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ValidationError

from spec import reading

LARGEST_BYTES = 64 * 1024**2
_LONGEST_SHOWN = 60
_MOST_MISTAKES = 20
_EXPECTED = (
    ("int", "a whole number"),
    ("float", "a number"),
    ("finite", "a finite number"),
    ("bool", "true or false"),
    ("string_type", "text"),
    ("list", "a list"),
    ("tuple", "a list"),
    ("model", "an object"),
    ("dict", "an object"),
    ("timezone", "a date and time with its zone like 2026-01-31T12:00:00Z"),
    ("date", "a date and time like 2026-01-31T12:00:00Z"),
)
"""Prefix of pydantic's error type to the expected value."""


def _no_truth_value(value: Any) -> Any:
    """Refuse `true` and `1.0`, which Python takes for 1."""
    if type(value) is not int and value == 1:
        raise ValueError(f"{json.dumps(value)} is not 1")
    return value


FirstSchema = Annotated[Literal[1], BeforeValidator(_no_truth_value)]
"""The schema version of a document; there is only version 1."""
M = TypeVar("M", bound=BaseModel)


class DocumentError(ValueError):
    """A document is refused; `mistakes` are sentences that begin with the place."""

    def __init__(self, mistakes: list[str]) -> None:
        self.mistakes = mistakes
        super().__init__("; ".join(mistakes))


def read(model: type[M], content: bytes) -> M:
    """Return the document without conversions. Raises DocumentError."""
    if len(content) > LARGEST_BYTES:
        raise DocumentError([f"{len(content)} bytes; at most {LARGEST_BYTES} are read"])
    try:
        text = reading.text(content)
        value = reading.json_value(text)
        if "-0" in text:  # which pydantic takes for 0
            text = json.dumps(value)
        return model.model_validate_json(text, strict=True)
    except reading.Unreadable as error:
        raise DocumentError([str(error)]) from None
    except ValidationError as error:
        sentences = dict.fromkeys(_sentence(dict(details)) for details in error.errors(include_url=False))
        raise DocumentError(list(sentences)[:_MOST_MISTAKES]) from None


def _sentence(details: dict[str, Any]) -> str:
    place = ".".join(str(step) for step in details["loc"] if step != "[key]") or "the document"
    return f"{place}: {_mistake(details)}"


def _mistake(details: dict[str, Any]) -> str:
    kind, given, context = details["type"], _shown(details["input"]), details.get("ctx", {})
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return "unknown key"
    if kind in ("literal_error", "enum"):
        return f"{given} is not {context['expected']}"
    if kind == "greater_than_equal":
        return f"{given} is too small; at least {_bound(context['ge'])}"
    if kind == "less_than_equal":
        return f"{given} is too large; at most {_bound(context['le'])}"
    if kind == "too_short":
        return "is empty; give at least one"
    if kind == "string_pattern_mismatch":
        return f"{given} is not of the form {context['pattern']}"
    for beginning, expected in _EXPECTED:
        if kind.startswith(beginning):
            return f"{given} where {expected} is expected"
    return str(details["msg"]).removeprefix("Value error, ")


def _bound(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
