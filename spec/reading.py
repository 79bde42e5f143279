"""Readers of external data: files, JSON, JSON lines, server responses. spec.yaml_reader reads YAML.

For any bytes, a reader returns a value of its documented type or raises Unreadable, whose message has the place and the
remedy. Uses only the standard library.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from spec.failure import NOT_TRIED, Failure

LARGEST_FILE = 64 * 1024 * 1024
"""The default limit in bytes of a file or a stream."""
LARGEST_ANSWER = 32 * 1024 * 1024
"""The limit in bytes of a server's response."""
DEEPEST = 100
"""The default limit of nested JSON lists and objects."""
DEEPEST_OF_THE_ENGINE = 200
"""The same limit for Pulumi's output: a custom resource definition has objects nested sixty levels deep."""
_LONGEST_NUMBER = 100
_BLOCK = 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_OPEN_ALREADY = re.compile(r"/dev/stdin|/dev/fd/\d+|/proc/self/fd/\d+", re.ASCII)
"""Pipes that a shell has opened, as for `<(…)`. They have a writer."""
_KINDS = (
    (stat.S_ISFIFO, "is a pipe, for which nobody may ever write; name a file"),
    (stat.S_ISCHR, "is a device; name a file"),
    (stat.S_ISBLK, "is a device; name a file"),
)
_REASONS = {
    errno.ENOENT: "there is no such file; check the path",
    errno.EISDIR: "is a directory; name a file",
    errno.ENXIO: "is a socket; name a file",
    errno.ENOTDIR: "what should be a directory of its path is a file; check the path",
    errno.EACCES: "may not be read; give yourself the right to (`chmod u+r`)",
    errno.EPERM: "may not be read; give yourself the right to (`chmod u+r`)",
    errno.ELOOP: "is a symbolic link that leads in a circle; make it lead to a file",
    errno.ENAMETOOLONG: "the path is too long; use a shorter one",
}
_PAGE = "is a page of HTML or XML, where JSON is expected"
IN_BETWEEN = "a proxy or a network's login page answers in its place? Check HTTPS_PROXY and the address"
"""The likely cause of a response that the server itself never gives. Messages end with it."""
_WORDS = {dict: "an object", list: "a list", str: "text", int: "a number", float: "a number", bool: "true or false"}


class Unreadable(Failure):
    """External data that is refused.

    `problem` says what is wrong and what is valid. `line` and `column` (from 1) are its place, if known.
    """

    exit_code = NOT_TRIED

    def __init__(self, problem: str, line: int | None = None, column: int | None = None, *, source: object = None) -> None:
        self.problem, self.line, self.column = problem, line, column
        if source is not None:
            super().__init__(self.within(source))
        else:
            super().__init__(f"{self.place}: {problem}" if line is not None else problem)

    @property
    def place(self) -> str:
        """Return `line 3, column 7`, as far as known."""
        numbers = (("line", self.line), ("column", self.column))
        return ", ".join(f"{name} {number}" for name, number in numbers if number is not None)

    def within(self, source: object) -> str:
        """Return the message in a form that editors can follow: `file:3:7: problem`."""
        numbers = "".join(f":{number}" for number in (self.line, self.column) if number is not None)
        return f"{source}{numbers}: {self.problem}"


def file(path: Path, most: int = LARGEST_FILE) -> bytes:
    """Return the bytes of a file. Raises Unreadable, with the path."""
    with opened(path) as stream_of_file:
        return stream(stream_of_file, path, most)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file for reading. Raises Unreadable with the path, also for pipes, devices, sockets and read errors."""
    try:
        # Non-blocking, because opening a pipe would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as found:
            mode = os.fstat(descriptor).st_mode
            if not _OPEN_ALREADY.fullmatch(str(path)):
                for is_kind, problem in _KINDS:
                    if is_kind(mode):
                        raise Unreadable(problem, source=path)
            os.set_blocking(descriptor, True)
            yield found
    except OSError as error:
        raise Unreadable(_reason(error, path), source=path) from None
    except ValueError:  # a NUL in the path
        raise Unreadable("is no path; use one without a NUL character", source=repr(str(path))) from None


def stream(opened: BinaryIO, source: object, most: int = LARGEST_FILE) -> bytes:
    """Return all bytes of an open stream. Raises Unreadable, with the source, and OSError."""
    blocks, size = [], 0
    while block := opened.read(_BLOCK):
        size += len(block)
        if size > most:
            raise Unreadable(f"longer than {most} bytes, which is the most that is read", source=source)
        blocks.append(block)
    return b"".join(blocks)


def text(content: bytes) -> str:
    """Return the UTF-8 text without a byte order mark. Raises Unreadable."""
    if content.startswith(_UTF16):
        raise Unreadable("UTF-16 or UTF-32, and not UTF-8; save the file in that encoding")
    nul = content.find(b"\0")
    if nul >= 0:
        raise Unreadable("a NUL character, which no text has; is it another kind of file?", *_place(content, nul))
    try:
        return content.removeprefix(_BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable("not UTF-8; save the file in that encoding", *_place(content, error.start)) from None


def text_file(path: Path, most: int = LARGEST_FILE) -> str:
    """Return the text of a file. Raises Unreadable, with the path."""
    content = file(path, most)
    try:
        return text(content)
    except Unreadable as error:
        raise Unreadable(error.problem, error.line, error.column, source=path) from None


def json_value(content: bytes | str, deepest: int = DEEPEST) -> Any:
    """Return the value of a JSON document. Raises Unreadable.

    Besides invalid JSON it refuses duplicate keys, numbers that programs read differently (NaN, Infinity, a hundred digits),
    lone surrogates, and values nested deeper than `deepest`.
    """
    whole = text(content) if isinstance(content, bytes) else content
    begins = whole.lstrip()[:1]
    if not begins:
        raise Unreadable("is empty, where JSON is expected")
    if begins == "<":
        raise Unreadable(_PAGE)
    try:
        value = json.loads(
            whole, object_pairs_hook=once, parse_int=_integer, parse_float=_float, parse_constant=_refuse_constant
        )
    except json.JSONDecodeError as error:
        raise Unreadable(f"not valid JSON: {error.msg}", error.lineno, error.colno) from None
    except RecursionError:
        raise Unreadable(f"nested deeper than {deepest} times") from None
    usable(value, deepest)
    return value


def json_object(content: bytes | str, deepest: int = DEEPEST) -> dict[str, Any]:
    """Return a JSON document that is an object. Raises Unreadable."""
    value = json_value(content, deepest)
    if not isinstance(value, dict):
        raise Unreadable(f"is {_word(value)}, where an object is expected")
    return value


def json_file(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file. Raises Unreadable, with the path."""
    content = file(path)
    try:
        return json_object(content)
    except Unreadable as error:
        raise Unreadable(error.problem, error.line, error.column, source=path) from None


def json_lines(content: str, deepest: int = DEEPEST) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the line number and object of each line of a stream. Raises Unreadable, with the line."""
    # Not splitlines, because JSON text may contain Unicode line separators.
    for number, line in enumerate(content.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            yield number, json_object(line, deepest)
        except Unreadable as error:
            raise Unreadable(error.problem, number, error.column) from None


def answer(content: bytes, server: str) -> Any:
    """Return the JSON value of a server's response. Raises Unreadable, with the server."""
    try:
        return json_value(content)
    except Unreadable as error:
        advice = f"; {IN_BETWEEN}" if error.problem == _PAGE else ""
        raise Unreadable(f"the answer cannot be read: {error}{advice}", source=server) from None


def checked(value: Any, form: Any, path: str) -> Any:
    """Return `value` if it has the form. Raises Unreadable, with the path.

    A form is a type, or a list with the form of the items (empty: any items). A dict of keys is the form of an object, which
    may have more keys, lack some, or have null values. A dict with the key `str` is the form of an object with any keys.
    """
    expected = type(form) if isinstance(form, dict | list) else form
    if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
        raise Unreadable(f"{path} is {_word(value)}, where {_WORDS[expected]} is expected")
    if isinstance(form, list):
        for index, item in enumerate(value if form else ()):
            checked(item, form[0], f"{path}[{index}]")
    if isinstance(form, dict) and isinstance(value, dict):
        any_key = form.get(str)
        for key, item in value.items():
            if any_key is not None:
                checked(item, any_key, f"{path}.{_short(key)}")
            elif key in form and item is not None:
                checked(item, form[key], f"{path}.{key}")
    return value


def _reason(error: OSError, path: Path) -> str:
    if error.errno == errno.ENOENT and path.is_symlink():
        return f"is a symbolic link to {path.readlink()}, which is not there; make it lead to a file"
    return _REASONS.get(error.errno or 0) or f"cannot be read: {error.strerror or error}"


def _place(content: bytes, position: int) -> tuple[int, int]:
    return content.count(b"\n", 0, position) + 1, position - content.rfind(b"\n", 0, position)


def once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise Unreadable(f"{_short(repr(twice))} is there twice in one object; keep one of them")
    return found


def _integer(digits: str) -> int | float:
    """Return `-0` as a floating-point number, because an integer would lose its sign."""
    if digits == "-0":
        return -0.0
    if len(digits) > _LONGEST_NUMBER:
        raise Unreadable(f"{_short(digits)} is a number of {len(digits)} digits; write a smaller one")
    return int(digits)


def _float(digits: str) -> float:
    number = float(digits) if len(digits) <= 10 * _LONGEST_NUMBER else float("inf")
    if number in (float("inf"), float("-inf")):
        raise Unreadable(f"{_short(digits)} is larger than a number can be; write a smaller one")
    return number


def _refuse_constant(constant: str) -> NoReturn:
    raise Unreadable(f"{constant} is no number of JSON; write a number")


def usable(value: Any, deepest: int = DEEPEST) -> None:
    """Refuse a JSON value that is nested too deep, or has text that cannot be written again. Raises Unreadable."""
    _check_text(value)
    level, depth = [value], 0
    while level:
        below: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                for key in one:
                    _check_text(key)
                below.extend(one.values())
            elif isinstance(one, list):
                below.extend(one)
        for one in below:
            _check_text(one)
        level = [one for one in below if isinstance(one, dict | list)]
        depth += 1
        if level and depth >= deepest:
            raise Unreadable(f"nested deeper than {deepest} times")


def _check_text(one: Any) -> None:
    if isinstance(one, str) and not one.isascii():
        try:
            one.encode()
        except UnicodeEncodeError:
            raise Unreadable("half of a character stands alone in a text; write the whole character") from None


def _word(value: Any) -> str:
    return _WORDS.get(type(value), "null")


def _short(words: str) -> str:
    return words if len(words) <= 40 else f"{words[:30]}…"
