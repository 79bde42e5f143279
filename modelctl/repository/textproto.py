"""Parse config.pbtxt strictly, as Triton does, but report all unknown fields at once.

The server stops at the first mistake (docs/facts/triton-configuration.md#text-of-configpbtxt). This parser reports an
unknown field, replaces it by blanks and parses the text again. So one run reports all of them, and later checks still see
the rest of the config.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pool, text_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from tritonclient.grpc.model_config_pb2 import ModelConfig

from modelctl.repository.problems import Problem

_UNKNOWN_FIELD = re.compile(r'Message type "(?P<message>[\w.]+)" has no field named "(?P<field>[^"]*)"')
_UNKNOWN_ENUM = re.compile(r'Enum type "(?P<enum>[\w.]+)" has no value named (?P<value>[\w.]+)')
_TOKEN = re.compile(r"""\#[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|[{}\[\]<>:;,]|[^\s{}\[\]<>:;,"'#]+""")
_OPENING, _CLOSING = "{[<", "}]>"

LARGEST_BYTES = 1024 * 1024
_MOST_PROBLEMS = 50
_LONGEST_MESSAGE = 300

_MAPS = frozenset(
    ("parameters", "cc_model_filenames", "inputs", "input_map", "output_map", "priority_queue_policy", "metric_tags")
)
"""Fields whose entries are a key and a value."""

_ADVICE = {
    "backend_config": "settings of a backend are server flags, --backend-config=<backend>,<key>=<value>",
    "rate_limit_resources": "write instance_group [ { rate_limiter { resources [ { name: … count: … } ] } } ]",
    "use_cuda_graphs": "write optimization { cuda { graphs: true } }",
    "max_queue_size": "write dynamic_batching { default_queue_policy { max_queue_size: … } }",
}
"""Fields that articles recommend and Triton never had.

See docs/facts/triton-configuration.md#fields-that-articles-invent.
"""


def parse(path: Path, text: str) -> tuple[ModelConfig | None, list[Problem]]:
    """Return the config and the problems of the text. No config if the parser cannot continue after a mistake."""
    problems: list[Problem] = []
    while True:
        config = ModelConfig()
        try:
            text_format.Parse(text, config)
        except text_format.ParseError as error:
            line, column = error.GetLine() or 1, error.GetColumn() or 1
            problems.append(Problem(path, _sentence(error, text, line), line, column))
            unknown = _UNKNOWN_FIELD.search(str(error))
            shortened = _without_field(text, line, column) if unknown else text
            if shortened == text or len(problems) >= _MOST_PROBLEMS:
                return None, problems
            text = shortened
        else:
            problems += islice(_keys_twice(path, text), _MOST_PROBLEMS)
            unnamed = [Problem(path, message) for message in _numbers_without_a_name(config)]
            # Later checks would need the name of an unnamed value, so the config is withheld.
            return (None if unnamed else config), [*problems, *unnamed]


def _keys_twice(path: Path, text: str) -> Iterator[Problem]:
    """Yield duplicate keys of a map: the text format silently takes the last one."""
    seen: set[tuple[int, str, str]] = set()
    # The open messages and lists: the start of each, its field, and the start of the enclosing message.
    open_: list[tuple[int, str, int]] = [(-1, "", -1)]
    field, previous = "", ""
    for token in _TOKEN.finditer(text):
        word = token[0]
        if word.startswith("#"):
            continue
        if word in _OPENING:
            begins, above, around = open_[-1]
            in_list = begins >= 0 and text[begins] == "["
            open_.append((token.start(), above, around) if in_list else (token.start(), field, begins))
        elif word in _CLOSING:
            if len(open_) > 1:
                open_.pop()
        elif previous == ":" and field == "key":
            _, name, around = open_[-1]
            entry = (around, name, word.strip("\"'"))
            if name in _MAPS and entry in seen:
                line = text.count("\n", 0, token.start()) + 1
                column = token.start() - text.rfind("\n", 0, token.start())
                yield Problem(
                    path, f"{name} has the key {word} twice, and the server takes the last; keep one", line, column
                )
            seen.add(entry)
        elif word not in ":;,":
            field = word
        previous = word


def _numbers_without_a_name(message: Message, where: str = "") -> Iterator[str]:
    """Yield invalid enumeration values, such as `kind: 99`: the text format accepts any number."""
    for field, value in message.ListFields():
        place = f"{where}.{field.name}".removeprefix(".")
        for index, item in _items(field, value):
            inner = f"{place}[{index}]" if index is not None else place
            if field.enum_type is not None and item not in field.enum_type.values_by_number:
                yield f"{inner}: there is no {item}; valid: {', '.join(value.name for value in field.enum_type.values)}"
            elif isinstance(item, Message):
                yield from _numbers_without_a_name(item, inner)


def _items(field: FieldDescriptor, value: Any) -> Iterable[tuple[object, Any]]:
    """Return the values of a field with their index or key. A single value has None."""
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return list(value.items())
    return list(enumerate(value)) if field.is_repeated else [(None, value)]


def _sentence(error: text_format.ParseError, text: str, line: int) -> str:
    if unknown := _UNKNOWN_FIELD.search(str(error)):
        return _unknown_field(unknown["message"], unknown["field"])
    message = re.sub(r"^\d+:\d+ : ", "", str(error))
    lines = text.splitlines()
    if line <= len(lines):
        message = message.removeprefix(f"'{lines[line - 1]}': ")
    message = re.sub(r"^'.*?': (?=[A-Z])", "", message).rstrip(".")
    if len(message) > _LONGEST_MESSAGE:
        message = f"{message[:_LONGEST_MESSAGE]}…"
    if unknown := _UNKNOWN_ENUM.search(message):
        enum = descriptor_pool.Default().FindEnumTypeByName(unknown["enum"])
        valid = ", ".join(value.name for value in enum.values if value.name not in {"TYPE_INVALID", "KIND_AUTO"})
        return f"there is no {unknown['value']}; valid: {valid}"
    return f"not valid protobuf text: {message}"


def _unknown_field(message_name: str, field: str) -> str:
    descriptor: Descriptor = descriptor_pool.Default().FindMessageTypeByName(message_name)
    if field in _ADVICE:
        advice = _ADVICE[field]
    else:
        names = [candidate.name for candidate in descriptor.fields]
        snake = re.sub(r"(?<=[a-z0-9])([A-Z])", lambda match: "_" + match[1].lower(), field)
        close = [snake] if snake in names else difflib.get_close_matches(snake, names, n=1)
        advice = f"did you mean {close[0]}?" if close else f"it has {', '.join(names)}"
    return f"{message_name.rpartition('.')[2]} has no field {field}; {advice}"


def _without_field(text: str, line: int, column: int) -> str:
    """Return `text` with the field at line:column replaced by blanks, so later places stay right."""
    lines = text.splitlines(keepends=True)
    start = sum(map(len, lines[: line - 1])) + column - 1
    end = _end_of_field(text, start)
    return text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]


def _end_of_field(text: str, start: int) -> int:
    tokens: Iterator[re.Match[str]] = (t for t in _TOKEN.finditer(text, start) if not t[0].startswith("#"))
    name = next(tokens, None)
    if name is None:
        return start
    end, depth = name.end(), 0
    for token in tokens:
        if depth == 0 and token[0] == ":":
            continue
        if depth == 0 and token[0] in _CLOSING:  # a name without a value, before the end of its message
            return end
        end = token.end()
        depth += (token[0] in _OPENING) - (token[0] in _CLOSING)
        if depth == 0:
            break
    separator = re.compile(r"\s*[;,]").match(text, end)
    return separator.end() if separator else end
