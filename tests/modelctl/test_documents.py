"""JSON documents: parsed exactly, or refused with all mistakes in this project's words."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelctl import documents
from modelctl.documents import DocumentError
from modelctl.repository.golden import Golden
from modelctl.store.journal import Journal
from modelctl.store.manifest import Manifest

TENSOR = {"datatype": "FP32", "shape": [1], "data": [1.0]}
GOLDEN = {"inputs": {"IN": TENSOR}, "outputs": {"OUT": TENSOR}}


def _mistakes(content: bytes | dict[str, Any]) -> list[str]:
    with pytest.raises(DocumentError) as caught:
        documents.read(Golden, content if isinstance(content, bytes) else json.dumps(content).encode())
    return caught.value.mistakes


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty, where JSON is expected"),
        (b"\xff\xfe{}", "UTF-16 or UTF-32, and not UTF-8; save the file in that encoding"),
        (b'{"a": "\xff"}', "line 1, column 8: not UTF-8; save the file in that encoding"),
        (b"<html>", "is a page of HTML or XML, where JSON is expected"),
        (b"\xef\xbb\xbfnull", "the document: null where an object is expected"),
        (b"[" * 100_000, "nested deeper than 100 times"),
        (b'{"inputs": {}, "inputs": {}}', "'inputs' is there twice in one object; keep one of them"),
        (b'{"tolerance": NaN}', "NaN is no number of JSON; write a number"),
        (b"null", "the document: null where an object is expected"),
        ({**GOLDEN, "tolerance": "1"}, 'tolerance: "1" where a number is expected'),
        ({**GOLDEN, "tolerance": -1}, "tolerance: -1 is too small; at least 0"),
        ({**GOLDEN, "other": 1}, "other: unknown key"),
        (
            {**GOLDEN, "inputs": {"IN": {**TENSOR, "shape": ["1"]}}},
            'inputs.IN.shape.0: "1" where a whole number is expected',
        ),
        (
            {**GOLDEN, "inputs": {"IN": {**TENSOR, "shape": [True]}}},
            "inputs.IN.shape.0: true where a whole number is expected",
        ),
        ({**GOLDEN, "inputs": {"IN": {**TENSOR, "shape": 1}}}, "inputs.IN.shape: 1 where a list is expected"),
        (
            {**GOLDEN, "inputs": {"IN": {**TENSOR, "data": "x" * 99}}},
            f'inputs.IN.data: "{"x" * 59}… where a list is expected',
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(content: bytes | dict[str, Any], said: str) -> None:
    assert _mistakes(content) == [said]


def test_a_tolerance_without_end_is_none() -> None:
    content = json.dumps({**GOLDEN, "tolerance": 7}).replace("7", "1e999").encode()
    (said,) = _mistakes(content)
    assert said == "1e999 is larger than a number can be; write a smaller one"


def test_all_mistakes_are_told() -> None:
    wrong = {"inputs": {"IN": {**TENSOR, "datatype": "FLOAT"}}, "outputs": {}}
    datatypes = (
        "'BOOL', 'UINT8', 'UINT16', 'UINT32', 'UINT64', 'INT8', 'INT16', 'INT32', 'INT64', 'FP16', 'FP32', 'FP64' or 'BYTES'"
    )
    assert _mistakes(wrong) == [f'inputs.IN.datatype: "FLOAT" is not {datatypes}', "outputs: is empty; give at least one"]


def test_more_than_is_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "LARGEST_BYTES", 10)
    assert _mistakes(b"x" * 11) == ["11 bytes; at most 10 are read"]


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from([Golden, Manifest, Journal]), st.binary() | _VALUES.map(lambda value: json.dumps(value).encode()))
def test_no_content_is_a_fault_of_the_program(model: type[Golden], content: bytes) -> None:
    try:
        documents.read(model, content)
    except DocumentError as error:
        assert all(error.mistakes)


@given(st.sampled_from(["inputs", "outputs", "tolerance"]), _VALUES)
def test_no_value_of_a_golden_inference_is_told_in_words_of_a_library(key: str, value: Any) -> None:
    try:
        documents.read(Golden, json.dumps({**GOLDEN, key: value}).encode())
    except DocumentError as error:
        assert not [said for said in error.mistakes if "Input should" in said or "Field required" in said]
