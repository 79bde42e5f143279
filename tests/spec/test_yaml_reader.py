"""One YAML dialect, the engine's, for every reader of a stack file."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec import yaml_reader, yaml_writer
from spec.yaml_reader import YamlError, read
from tests.spec.engine_dialect import READ_AS, REFUSED


def same(one: Any, other: Any) -> bool:
    """Return whether values and types are equal: in Python, 1, 1.0 and true are equal."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@pytest.mark.parametrize("text", READ_AS)
def test_a_value_without_quotes_is_what_the_engine_makes_of_it(text: str) -> None:
    assert same(read(f"a: {text}").value, {"a": READ_AS[text]})
    assert same(read(f"- {text}\n-\n  {text}").value, [READ_AS[text]] * 2)


@pytest.mark.parametrize("text", REFUSED)
def test_what_the_engine_makes_something_else_of_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(YamlError) as refused:
        read(f"a: 1\nb: [1, {text}]")
    assert (refused.value.line, refused.value.column) == (2, 8)
    assert refused.value.problem.startswith(REFUSED[text])
    assert refused.value.within("f.yaml") == f"f.yaml:2:8: {refused.value.problem}"


@pytest.mark.parametrize("text", [*READ_AS, *REFUSED])
def test_in_quotes_everything_is_text(text: str) -> None:
    assert read(f"a: '{text}'\nb: \"{text}\"\nc: |-\n  {text}\n").value == {"a": text, "b": text, "c": text}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# nothing\n", None),
        ("\ufeffa: 1", {"a": 1}),
        ("a:\nb: ''", {"a": None, "b": ""}),
        ("1: a\n-5: b\ntrue: c\nyes: d", {"1": "a", "-5": "b", "true": "c", "yes": "d"}),
        ("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}),
        ("a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}", {"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 3}}),
        (
            "a: &a {b: 1}\nc: &c {b: 2, d: 2}\ne: {<<: [*a, *c]}",
            {"a": {"b": 1}, "c": {"b": 2, "d": 2}, "e": {"b": 1, "d": 2}},
        ),
        ("'<<': 1", {"<<": 1}),
        ('a: "\\u20ac\\x07"', {"a": "\u20ac\x07"}),
        ("a: >\n  b\n  c\n", {"a": "b c\n"}),
        ("a: 1\r\nb: x\r\n", {"a": 1, "b": "x"}),
    ],
)
def test_a_document_is_read(text: str, value: Any) -> None:
    assert same(read(text).value, value)
    assert same(read(text.encode()).value, value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb: 2\na: 3", "line 3, column 1: 'a' is there twice, first on line 1; keep one of them"),
        ("a: {b: 1, 'b': 2}", "line 1, column 11: 'b' is there twice, first on line 1; keep one of them"),
        ("1: a\n'1': b", "line 2, column 1: '1' is there twice, first on line 1; keep one of them"),
        ("a: !!int '8'", "line 1, column 4: has the tag !!int; leave it out, and put what is text into quotes"),
        ("a: ! x", "line 1, column 4: has the tag !; leave it out, and put what is text into quotes"),
        ("!x {a: 1}", "line 1, column 1: has the tag !x; leave it out, and put what is text into quotes"),
        ("? [1]\n: 2", "line 1, column 3: a key that is not text; put it into quotes"),
        ("1.5: a", "line 1, column 1: a key that is not text; put it into quotes"),
        ("0x1: a", "line 1, column 1: a key that is not text; put it into quotes"),
        ("True: a", "line 1, column 1: a key that is not text; put it into quotes"),
        ("~: a", "line 1, column 1: a key that is not text; put it into quotes"),
        ("a: 1\n---\nb: 2", "line 2, column 1: a second document begins, of which nothing would be read; keep one"),
        ("a: *x", "line 1, column 4: there is no &x before this"),
        ("a: &x [*x]", "line 1, column 8: *x stands in what it stands for"),
        ("<<: 1", "line 1, column 5: << merges a mapping or a list of mappings, and this is none"),
        ("a: &x {}\nb: {<<: *x, <<: *x}", "line 2, column 13: << is there twice; give a list of what is to be merged"),
        ("a: [1", "line 2, column 1: not valid YAML: did not find expected ',' or ']'"),
        ("a: [b?c]", 'line 1, column 5: b?c has a question mark between brackets; put it into quotes: "b?c"'),
        ('a: "\\n b"', "line 1, column 4: begins with an empty line, which the engine leaves out; leave it out"),
        ("a: \x07", "not valid YAML: unacceptable character #x0007: control characters are not allowed"),
        ("a: \0", "not valid YAML: unacceptable character #x0000: control characters are not allowed"),
        ("a: \ud800", "not valid YAML: half of a character stands alone"),
        ("[" * 200 + "]" * 200, "line 1, column 102: nested deeper than 100 times"),
        ("a: " + "x" * yaml_reader.LARGEST_BYTES, "1048579 bytes; a file of at most 1048576 bytes is read"),
    ],
    ids=range(24),
)
def test_what_is_refused_is_a_sentence_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(YamlError) as refused:
        read(text)
    assert str(refused.value) == problem


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("utf-16", "UTF-16 or UTF-32, and not UTF-8; save the file in that encoding"),
        ("utf-32", "UTF-16 or UTF-32, and not UTF-8; save the file in that encoding"),
        ("utf-16-le", "line 1, column 2: a NUL character, which no text has; is it another kind of file?"),
        ("latin-1", "line 1, column 4: not UTF-8; save the file in that encoding"),
    ],
)
def test_another_encoding_is_a_sentence(encoding: str, said: str) -> None:
    with pytest.raises(YamlError) as refused:
        read("caf\u00e9: 1".encode(encoding))
    assert str(refused.value) == said


def test_a_bomb_of_aliases_is_refused_at_once() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    with pytest.raises(YamlError, match="more than 100000 values, aliases written out"):
        read("\n".join(lines))


@pytest.mark.parametrize("digits", ["9" * 5000, "-" + "9" * 5000, "0x" + "f" * 5000])
def test_a_number_of_thousands_of_digits_is_refused_shortly(digits: str) -> None:
    with pytest.raises(YamlError) as refused:
        read(f"a: {digits}")
    assert refused.value.problem.startswith(f"{digits[:30]}… ({len(digits)} digits) has more than 64 bits; write a smaller ")


def test_what_is_changed_in_one_place_is_not_changed_where_its_alias_was() -> None:
    value = read("a: &x {b: [1]}\nc: *x").value
    value["a"]["b"].append(2)
    assert value["c"] == {"b": [1]}


def test_keys_have_their_lines() -> None:
    document = read("a:\n  b: 1\n  c:\n    - d: 2\n    - e: 3\n")
    assert document.lines == {("a",): 1, ("a", "b"): 2, ("a", "c"): 3, ("a", "c", 0, "d"): 4, ("a", "c", 1, "e"): 5}


@given(st.binary(max_size=200))
def test_whatever_is_given_is_read_or_refused(content: bytes) -> None:
    try:
        read(content)
    except YamlError as error:
        assert error.problem


_TEXTS = st.text(st.characters(exclude_categories=("Cs",))).filter(lambda text: not text.lstrip(" \t").startswith("\n"))
# Outside of them, a float is written with fewer digits than it has, as in the engine.
_FLOATS = st.floats(-(2.0**53), 2.0**53)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | _FLOATS | _TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(_TEXTS, inner),
)


@given(st.dictionaries(_TEXTS, _VALUES))
def test_what_is_written_is_read_as_the_same(document: dict[str, Any]) -> None:
    assert read(yaml_writer.dump(document)).value == document


@given(st.sampled_from([*READ_AS, *REFUSED]))
def test_a_text_is_written_as_one_whatever_it_looks_like(text: str) -> None:
    assert same(read(yaml_writer.dump({text: [text]})).value, {text: [text]})
