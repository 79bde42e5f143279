"""Read YAML like Pulumi's engine reads a stack file, or refuse it.

The engine loads a stack file with gopkg.in/yaml.v3, writes it again, loads the result, and passes it to the program as JSON
(pulumi/pulumi, sdk/go/common/workspace/loaders.go and resource/config). The result is a separate dialect: `yes` is text;
`1_000`, `0x10`, `1e3` and `1.0` are integers. With this module every command reads the same values as the program.

It refuses, with the place, everything that the engine refuses, and values that the engine would change: numbers with a
leading zero (it reads 010 as 8), dates, infinities, tags (!!int), keys that are not text, and duplicate keys.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NoReturn

import yaml

from spec import reading
from spec.reading import Unreadable

Path = tuple[str | int, ...]
"""The path of a value: the keys and list indexes that lead to it."""

LARGEST_BYTES = 1024 * 1024
DEEPEST = 100
MOST_VALUES = 100_000
"""Per document, with aliases expanded."""

_MERGE = "<<"
_LONGEST_NUMBER = 100
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE, _FALSE = frozenset({"true", "True", "TRUE"}), frozenset({"false", "False", "FALSE"})
_UNUSUAL = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([Tt\s].*)?", re.ASCII)
_LEADING_ZERO = re.compile(r"[-+]?0\d+(\.\d*)?([eE][-+]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+|0|[1-9][0-9]*)")
_SIGN_INSIDE = re.compile(r"0[bo][-+]")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INT64 = range(-(2**63), 2**63)
_LARGEST_WHOLE_FLOAT = 1e21
"""From this value on, Go's JSON writes a float with an exponent. Smaller floats without a fraction are written as
integers."""


class YamlError(Unreadable):
    """A YAML text that is refused."""


@dataclass(frozen=True)
class Document:
    """A value of dict, list, str, int, float, bool and None. `lines` has the line of each key of its mappings."""

    value: Any
    lines: dict[Path, int] = field(default_factory=dict)


def read(content: bytes | str) -> Document:
    """Read one document; an empty one is None. Raises YamlError."""
    return _Reader(_text(content)).document()


def scalar(text: str) -> str | int | float | bool | None:
    """Return the value of an unquoted text. Raises YamlError, without a place, if it is refused."""
    plain = text.replace("_", "")
    if text in _NULLS:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _UNUSUAL.fullmatch(text):
        raise YamlError(f"{text} is no number that the engine can pass on; write a number, or put it into quotes for text")
    if _DATE.fullmatch(text):
        raise YamlError(f'{text} is a date in YAML, which the engine writes in another way; put it into quotes: "{text}"')
    if text[0] not in "+-.0123456789":
        return text
    if text[0] == "." and plain != text and _FLOAT.fullmatch(plain):
        raise YamlError(f'{text} is a number or text, as its underscores stand; write it without, or in quotes: "{text}"')
    return _number(text, plain)


def _number(text: str, plain: str) -> str | int | float:
    """Read a number like resolve.go of yaml.v3: strconv.ParseInt with base 0, then a float; otherwise return the text."""
    if _LEADING_ZERO.fullmatch(plain):
        raise YamlError(
            f"{text} begins with a zero, and is read by eights or not, as its digits allow; write it without the zero, or "
            f'put it into quotes for text: "{text}"'
        )
    if _SIGN_INSIDE.match(plain):
        raise YamlError(f'{text} has its sign inside; write it in front, or put it into quotes for text: "{text}"')
    if _WHOLE.fullmatch(plain):
        if len(plain) > _LONGEST_NUMBER or (value := int(plain, 0)) not in _INT64:
            raise YamlError(f"{_short(text)} has more than 64 bits; write a smaller number, or put it into quotes for text")
        return value
    return _float(plain, text) if _FLOAT.fullmatch(plain) else text


def _float(plain: str, text: str | None = None) -> str | int | float:
    value = float(plain)
    if value in (float("inf"), float("-inf")):  # out of range for a float: text to the engine
        return text if text is not None else plain
    if value.is_integer() and abs(value) < _LARGEST_WHOLE_FLOAT:
        return int(Decimal(repr(value)))
    return value


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:30]}… ({len(text)} digits)"


def _text(content: bytes | str) -> str:
    size = len(content)
    if size > LARGEST_BYTES:
        raise YamlError(f"{size} bytes; a file of at most {LARGEST_BYTES} bytes is read")
    if isinstance(content, str):
        return content.removeprefix("\ufeff")
    try:
        return reading.text(content)
    except Unreadable as error:
        raise YamlError(error.problem, error.line, error.column) from None


class _Reader:
    """Builds values from the events of libyaml. The scanner and parser of yaml.v3 are a translation of libyaml's."""

    def __init__(self, text: str) -> None:
        self._events = self._parsed(text)
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._open: set[str] = set()
        self._values = 0
        self._in_brackets = 0
        self._lines: dict[Path, int] = {}

    @staticmethod
    def _parsed(text: str) -> Iterator[Any]:
        try:
            yield from yaml.parse(text, Loader=yaml.CSafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            problem = f"not valid YAML: {error.problem or error.context}"
            raise YamlError(problem, mark.line + 1 if mark else None, mark.column + 1 if mark else None) from None
        except yaml.YAMLError as error:  # a control character
            raise YamlError(f"not valid YAML: {str(error).splitlines()[0]}") from None
        except UnicodeEncodeError:  # a lone surrogate, in text that was not decoded from UTF-8
            raise YamlError("not valid YAML: half of a character stands alone") from None

    def document(self) -> Document:
        next(self._events)  # the stream begins
        event = next(self._events)
        if isinstance(event, yaml.StreamEndEvent):
            return Document(None)
        value = self._value(next(self._events), ())
        next(self._events)  # the document ends
        event = next(self._events)
        if not isinstance(event, yaml.StreamEndEvent):
            self._refuse("a second document begins, of which nothing would be read; keep one", event)
        return Document(value, self._lines)

    def _value(self, event: Any, path: Path) -> Any:
        self._count(1, event)
        if len(path) > DEEPEST:
            self._refuse(f"nested deeper than {DEEPEST} times", event)
        if isinstance(event, yaml.AliasEvent):
            return self._aliased(event)
        if event.tag is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            self._refuse(f"has the tag {tag}; leave it out, and put what is text into quotes", event)
        if event.anchor is not None:
            return self._anchored(event, path)
        return self._content(event, path)

    def _content(self, event: Any, path: Path) -> Any:
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        brackets = bool(event.flow_style)
        self._in_brackets += brackets
        value = self._sequence(path) if isinstance(event, yaml.SequenceStartEvent) else self._mapping(path)
        self._in_brackets -= brackets
        return value

    def _scalar(self, event: Any) -> Any:
        if event.style:  # quoted or a block scalar
            if event.value.lstrip(" \t").startswith("\n"):
                self._refuse("begins with an empty line, which the engine leaves out; leave it out", event)
            return event.value
        if self._in_brackets and "?" in event.value:
            self._refuse(f'{event.value} has a question mark between brackets; put it into quotes: "{event.value}"', event)
        try:
            return scalar(event.value)
        except YamlError as error:
            self._refuse(error.problem, event)

    def _sequence(self, path: Path) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._value(event, (*path, len(items))))
        return items

    def _mapping(self, path: Path) -> dict[str, Any]:
        own: dict[str, Any] = {}
        lines: dict[str, int] = {}
        merged: dict[str, Any] | None = None
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            line = event.start_mark.line + 1
            if self._is_merge(event):
                if merged is not None:
                    self._refuse(f"{_MERGE} is there twice; give a list of what is to be merged", event)
                merged = self._merged(next(self._events), path)
                continue
            key = self._key(event)
            if key in own:
                self._refuse(f"'{key}' is there twice, first on line {lines[key]}; keep one of them", event)
            lines[key] = self._lines[(*path, key)] = line
            own[key] = self._value(next(self._events), (*path, key))
        return {**{key: value for key, value in (merged or {}).items() if key not in own}, **own}

    def _key(self, event: Any) -> str:
        """Return a key: text, or an integer or truth value converted to text as by the engine. Raises YamlError for
        others."""
        if isinstance(event, yaml.ScalarEvent | yaml.AliasEvent):
            key = self._value(event, ())
            if isinstance(key, str):
                return key
            if isinstance(key, bool | int) and str(key).lower() == getattr(event, "value", "") and key in _INT64:
                return str(key).lower()
        self._refuse("a key that is not text; put it into quotes", event)

    @staticmethod
    def _is_merge(event: Any) -> bool:
        return isinstance(event, yaml.ScalarEvent) and event.value == _MERGE and not event.style and event.tag is None

    def _merged(self, event: Any, path: Path) -> dict[str, Any]:
        """Return the keys that `<<` merges; of several mappings the first takes precedence."""
        value = self._value(event, path)
        found: dict[str, Any] = {}
        for mapping in value if isinstance(value, list) else [value]:
            if not isinstance(mapping, dict):
                self._refuse(f"{_MERGE} merges a mapping or a list of mappings, and this is none", event)
            found = {**mapping, **found}
        return found

    def _anchored(self, event: Any, path: Path) -> Any:
        self._open.add(event.anchor)
        before = self._values
        value = self._content(event, path)
        self._open.discard(event.anchor)
        self._anchors[event.anchor] = (value, self._values - before)
        return value

    def _aliased(self, event: Any) -> Any:
        if event.anchor in self._open:
            self._refuse(f"*{event.anchor} stands in what it stands for", event)
        if event.anchor not in self._anchors:
            self._refuse(f"there is no &{event.anchor} before this", event)
        value, size = self._anchors[event.anchor]
        self._count(size, event)
        return copy.deepcopy(value)

    def _count(self, values: int, event: Any) -> None:
        self._values += values
        if self._values > MOST_VALUES:
            self._refuse(f"more than {MOST_VALUES} values, aliases written out", event)

    @staticmethod
    def _refuse(problem: str, event: Any) -> NoReturn:
        raise YamlError(problem, event.start_mark.line + 1, event.start_mark.column + 1)
