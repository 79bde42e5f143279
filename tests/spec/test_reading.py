"""Input from a file, a stream or a server is parsed as the expected type, or refused with a message."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec import reading
from spec.failure import NOT_TRIED
from spec.reading import Unreadable


def refusal(read: Callable[[], Any]) -> str:
    with pytest.raises(Unreadable) as refused:
        read()
    assert refused.value.exit_code == NOT_TRIED
    return str(refused.value)


def test_a_file_is_read_and_a_mark_at_its_beginning_is_none_of_its_text(tmp_path: Path) -> None:
    file = tmp_path / "a b.json"
    file.write_bytes(b'\xef\xbb\xbf{"caf\xc3\xa9": [1, 2.5, null, true, 1e3]}\r\n')
    assert reading.text_file(file) == '{"caf\u00e9": [1, 2.5, null, true, 1e3]}\r\n'
    assert reading.json_file(file) == {"caf\u00e9": [1, 2.5, None, True, 1000.0]}


def test_what_is_no_readable_file_is_told_with_its_path_and_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "circle").symlink_to("circle")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "long").write_bytes(b"12345")
    for name, said in {
        "": "is a directory; name a file",
        "missing": "there is no such file; check the path",
        "dangling": "is a symbolic link to nowhere, which is not there; make it lead to a file",
        "circle": "is a symbolic link that leads in a circle; make it lead to a file",
        "pipe": "is a pipe, for which nobody may ever write; name a file",
        "zero": "is a device; name a file",
        "long": "longer than 4 bytes, which is the most that is read",
        "long/file": "what should be a directory of its path is a file; check the path",
        "x" * 300: "the path is too long; use a shorter one",
        "socket": "is a socket; name a file",
    }.items():
        path = tmp_path / name
        assert refusal(lambda path=path: reading.file(path, most=4)) == f"{path}: {said}"
    assert refusal(lambda: reading.file(Path("a\0b"))) == "'a\\x00b': is no path; use one without a NUL character"


def test_a_file_without_permission_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)  # root may read everything
    assert (
        refusal(lambda: reading.file(tmp_path)) == f"{tmp_path}: may not be read; give yourself the right to (`chmod u+r`)"
    )


def test_a_pipe_that_a_shell_has_opened_is_read() -> None:
    reader, writer = os.pipe()
    said = b"x" * 100_000  # more than a pipe holds
    thread = threading.Thread(target=lambda: (os.write(writer, said), os.close(writer)))
    thread.start()
    try:
        assert reading.file(Path(f"/dev/fd/{reader}")) == said
    finally:
        thread.join()
        os.close(reader)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty, where JSON is expected"),
        (b" \n", "is empty, where JSON is expected"),
        (b"\n<!DOCTYPE html><html>", "is a page of HTML or XML, where JSON is expected"),
        (b"\xff\xfe{\0}\0", "UTF-16 or UTF-32, and not UTF-8; save the file in that encoding"),
        (b'{"a":\n "\xe9"}', "line 2, column 3: not UTF-8; save the file in that encoding"),
        (b'{"a":\n \0}', "line 2, column 2: a NUL character, which no text has; is it another kind of file?"),
        (b'{"a": "\x07"}', "line 1, column 8: not valid JSON: Invalid control character at"),
        (b'{"a": 1,\n "b"', "line 2, column 5: not valid JSON: Expecting ':' delimiter"),
        (b'{"a": 1, "b": {"a": 1, "a": 2}}', "'a' is there twice in one object; keep one of them"),
        (b'{"a": NaN}', "NaN is no number of JSON; write a number"),
        (b'{"a": -Infinity}', "-Infinity is no number of JSON; write a number"),
        (b'{"a": 1e999}', "1e999 is larger than a number can be; write a smaller one"),
        (b'{"a": ' + b"9" * 5000 + b"}", f"{'9' * 30}… is a number of 5000 digits; write a smaller one"),
        (b'{"a": "\\ud800"}', "half of a character stands alone in a text; write the whole character"),
        (b'{"\\ud800": 1}', "half of a character stands alone in a text; write the whole character"),
        (b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}", "nested deeper than 100 times"),
        (b'{"a": ' * 100_000, "nested deeper than 100 times"),
        (b"[1]", "is a list, where an object is expected"),
        (b'"text"', "is text, where an object is expected"),
        (b"true", "is true or false, where an object is expected"),
        (b"null", "is null, where an object is expected"),
    ],
)
def test_json_that_is_refused_is_told_with_its_place(content: bytes, said: str, tmp_path: Path) -> None:
    assert refusal(lambda: reading.json_object(content)) == said
    file = tmp_path / "file.json"
    file.write_bytes(content)
    told = refusal(lambda: reading.json_file(file))
    assert told.startswith(f"{file}:") and told.endswith(said.partition(": ")[2] if said.startswith("line ") else said)


def test_lines_of_json_are_told_by_their_number() -> None:
    assert list(reading.json_lines('{"a": "\u2028"}\n\n{"b": 1}\r\n')) == [(1, {"a": "\u2028"}), (3, {"b": 1})]
    assert refusal(lambda: list(reading.json_lines('{}\n{"a"\n'))) == (
        "line 2, column 5: not valid JSON: Expecting ':' delimiter"
    )
    assert refusal(lambda: list(reading.json_lines("{}\n7\n"))) == "line 2: is a number, where an object is expected"


def test_an_answer_is_told_with_its_server() -> None:
    assert reading.answer(b"[1]", "http://here") == [1]
    assert refusal(lambda: reading.answer(b"<html>", "GET http://here")) == (
        "GET http://here: the answer cannot be read: is a page of HTML or XML, where JSON is expected; a proxy or "
        "a network's login page answers in its place? Check HTTPS_PROXY and the address"
    )


FORM = {"name": str, "count": int, "tags": {str: str}, "items": [{"on": bool}]}


def test_what_has_the_form_is_returned_as_it_is() -> None:
    value = {"name": None, "count": 1, "tags": {"a": "b"}, "items": [{"on": True, "more": 1}, {"on": None}], "more": 2}
    assert reading.checked(value, FORM, "it") is value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("text", "it is text, where an object is expected"),
        ({"name": 1}, "it.name is a number, where text is expected"),
        ({"count": True}, "it.count is true or false, where a number is expected"),
        ({"tags": {"a": {}}}, "it.tags.a is an object, where text is expected"),
        ({"items": [{}, {"on": "yes"}]}, "it.items[1].on is text, where true or false is expected"),
        ({"items": [None]}, "it.items[0] is null, where an object is expected"),
        ({"tags": {"a": None}}, "it.tags.a is null, where text is expected"),
        ({"items": {}}, "it.items is an object, where a list is expected"),
    ],
)
def test_what_has_another_form_is_told_with_its_path(value: Any, said: str) -> None:
    assert refusal(lambda: reading.checked(value, FORM, "it")) == said


GOOD = json.dumps({"name": "caf\u00e9", "items": [{"a": 1.5e3}, None, [True, "\u20ac"]]}, ensure_ascii=False).encode()


@given(
    st.binary(max_size=60)
    | st.integers(0, len(GOOD)).map(lambda end: GOOD[:end])
    | st.tuples(st.integers(0, len(GOOD) - 1), st.binary(max_size=3)).map(
        lambda change: GOOD[: change[0]] + change[1] + GOOD[change[0] + 1 :]
    )
)
def test_whatever_the_bytes_are_they_are_read_or_refused(content: bytes) -> None:
    readers: list[tuple[Callable[[], Any], type]] = [
        (lambda: reading.text(content), str),
        (lambda: reading.json_object(content), dict),
        (lambda: list(reading.json_lines(reading.text(content))), list),
    ]
    for read, kind in readers:
        try:
            assert isinstance(read(), kind)
        except Unreadable as error:
            assert error.problem
