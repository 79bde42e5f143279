"""The section `config` of a stack file, read by the engine's key names."""

import pytest

from spec.stack_file import StackFileError, decoded, full_name, read


def test_every_spelling_of_a_key_is_the_same_key() -> None:
    lines = ("network: 1", "triton-eks:gpu: 2", "triton-eks:config:models: 3", "aws:region: x", "pulumi:tags: {}")
    found = read("\n  ".join(["config:", *lines]))
    assert found.config == {
        "triton-eks:network": 1,
        "triton-eks:gpu": 2,
        "triton-eks:models": 3,
        "aws:region": "x",
        "pulumi:tags": {},
    }
    assert found.spelling["triton-eks:network"] == "network"
    assert [full_name(key) for key in ("a:b:c", "aws:config:region", "")] == ["a:b:c", "aws:region", "triton-eks:"]


def test_two_spellings_of_one_key_are_refused_with_both_places() -> None:
    with pytest.raises(StackFileError) as refused:
        read("config:\n  network: 1\n  gpu: 1\n  triton-eks:network: 2\n  triton-eks:config:gpu: 2\n")
    assert str(refused.value).splitlines() == [
        "line 4: triton-eks:network and network (line 2) are two spellings of one key; keep one of them",
        "line 5: triton-eks:config:gpu and gpu (line 3) are two spellings of one key; keep one of them",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a", "a stack file is a mapping with a mapping `config` in it, and this is not"),
        ("config: [1]", "line 1: config is not a mapping; give the mapping of all settings"),
        ("a: 1\nconfig: text", "line 2: config is not a mapping; give the mapping of all settings"),
        ("config: {a: 1, a: 2}", "line 1, column 16: 'a' is there twice, first on line 1; keep one of them"),
        (
            'config:\n  a: 1\n  b: \'{"c": {"d": 1, "d": 2}}\'',
            "line 3: b: 'd' is there twice in one object; keep one of them",
        ),
    ],
)
def test_what_is_no_stack_file_is_a_sentence(text: str, said: str) -> None:
    with pytest.raises(StackFileError) as refused:
        read(text)
    assert str(refused.value) == said


@pytest.mark.parametrize("text", ["", "encryptionsalt: x", "config:"])
def test_a_stack_without_config_has_none(text: str) -> None:
    assert read(text).config is None


@pytest.mark.parametrize(
    ("value", "read_as"),
    [
        ("", None),
        (None, None),
        ('{"a": [1]}', {"a": [1]}),
        ("8", 8),
        ("true", True),
        ("010", "010"),
        ("NaN", "NaN"),
        ("Infinity", "Infinity"),
        ("[" * 100_000, "[" * 100_000),
        ("9" * 5000, "9" * 5000),
        ({"a": 1}, {"a": 1}),
        (False, False),
    ],
    ids=range(12),
)
def test_a_value_is_read_as_the_program_reads_what_the_engine_hands_over(value: object, read_as: object) -> None:
    found = decoded(value)
    assert (found, type(found)) == (read_as, type(read_as))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (r'{"containers": "\ud800"}', "half of a character stands alone in a text; write the whole character"),
        (r'{"\udfff": 1}', "half of a character stands alone in a text; write the whole character"),
        ("[" * 150 + "]" * 150, "nested deeper than 100 times"),
    ],
    ids=["value", "key", "deep"],
)
def test_what_nobody_could_write_again_is_told_of_json_in_quotes(text: str, said: str) -> None:
    with pytest.raises(StackFileError, match=f"line 2: triton-eks:logs: {said}"):
        read(f"config:\n  triton-eks:logs: '{text}'\n")
