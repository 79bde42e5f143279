"""Property values on the wire and in Python."""

import pytest

from twin.plugins import values
from twin.plugins.values import UNKNOWN, annotate_secrets, from_struct, has_unknown, secret, to_struct, unwrap


def test_whole_numbers_come_back_as_ints_and_others_as_floats() -> None:
    sent = {"count": 3, "ratio": 0.5, "on": True, "list": [1, {"x": 2}], "text": "3"}
    received = from_struct(to_struct(sent))
    assert received == sent
    assert [type(received[key]) for key in ("count", "ratio", "on")] == [int, float, bool]
    assert type(received["list"][1]["x"]) is int


def test_nulls_are_absent_in_maps_and_kept_in_lists() -> None:
    assert from_struct(to_struct({"a": None, "b": {"c": None}, "d": [None, 1]})) == {"b": {}, "d": [None, 1]}


def test_a_value_that_json_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot be a set"):
        to_struct({"a": {1}})


def test_unwrapping_strips_marks_at_any_depth_and_tells_what_they_said() -> None:
    output = {values.SIGNATURE: values.OUTPUT, "value": {"y": secret("s")}, "dependencies": ["urn:a"]}
    unwrapped = unwrap({"x": [output], "asset": {values.SIGNATURE: values.ASSET, "path": "p"}})
    assert unwrapped.value == {"x": [{"y": "s"}], "asset": {values.SIGNATURE: values.ASSET, "path": "p"}}
    assert unwrapped.secret
    assert unwrapped.dependencies == {"urn:a"}


def test_an_output_without_a_value_is_unknown() -> None:
    unwrapped = unwrap({"x": {values.SIGNATURE: values.OUTPUT, "dependencies": ["urn:a", "urn:b"]}})
    assert unwrapped.value == {"x": UNKNOWN}
    assert not unwrapped.secret
    assert unwrapped.dependencies == {"urn:a", "urn:b"}


def test_unknowns_are_found_inside_lists_and_maps() -> None:
    assert has_unknown({"a": [{"b": UNKNOWN}]})
    assert not has_unknown({"a": [{"b": f"x-{UNKNOWN}"}]})


def test_a_property_stays_secret_where_the_inputs_had_a_secret() -> None:
    marked = {"data": {"password": secret("p"), "user": "u"}, "list": [secret(1)], "plain": "x"}
    assert annotate_secrets({"data": {"password": "q", "user": "u"}, "list": [1], "plain": "x", "new": 1}, marked) == {
        "data": {"password": secret("q"), "user": "u"},
        "list": secret([1]),
        "plain": "x",
        "new": 1,
    }


def test_a_property_that_is_marked_already_is_not_marked_twice() -> None:
    assert annotate_secrets({"a": secret("x")}, {"a": secret("y")}) == {"a": secret("x")}
