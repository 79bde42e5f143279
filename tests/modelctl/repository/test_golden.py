"""Golden inferences: their form, and the accepted answers."""

import json
from typing import Any

import pytest

from modelctl.repository.golden import Golden, GoldenError


def _golden(datatype: str, shape: list[int], data: list[Any], **more: Any) -> Golden:
    tensor = {"datatype": datatype, "shape": shape, "data": data}
    return Golden.parse("m/1/golden.json", json.dumps({"inputs": {"IN": tensor}, "outputs": {"OUT": tensor}, **more}))


def _answer(datatype: str, shape: list[int], data: list[Any]) -> dict[str, Any]:
    return {"outputs": [{"name": "OUT", "datatype": datatype, "shape": shape, "data": data}]}


def test_the_request_names_the_outputs_and_is_flat() -> None:
    assert _golden("FP32", [2, 2], [[1.0, 2.0], [3.0, 4.0]]).request() == {
        "inputs": [{"name": "IN", "datatype": "FP32", "shape": [2, 2], "data": [1.0, 2.0, 3.0, 4.0]}],
        "outputs": [{"name": "OUT"}],
    }


@pytest.mark.parametrize("zero", ["-0", "-0.0", "-0e0"])
def test_a_zero_keeps_its_sign(zero: str) -> None:
    tensor = f'{{"datatype": "FP32", "shape": [2], "data": [{zero}, 0]}}'
    golden = Golden.parse("golden.json", f'{{"inputs": {{"IN": {tensor}}}, "outputs": {{"OUT": {tensor}}}}}')
    assert json.dumps(golden.request()["inputs"][0]["data"]) == "[-0.0, 0]"


@pytest.mark.parametrize(("given", "passes"), [(1.000009, True), (1.00002, False), (0.999991, True)])
def test_small_numbers_may_differ_by_the_tolerance(given: float, passes: bool) -> None:
    difference = _golden("FP32", [1], [1.0]).difference(_answer("FP32", [1], [given]))
    assert difference == (None if passes else f"OUT[0] is {given}, expected 1.0 (tolerance 1e-05)")


@pytest.mark.parametrize(("given", "passes"), [(1_000_009.0, True), (1_000_020.0, False)])
def test_large_numbers_may_differ_by_that_share(given: float, passes: bool) -> None:
    difference = _golden("FP32", [1], [1_000_000.0]).difference(_answer("FP32", [1], [given]))
    assert (difference is None) == passes


def test_without_tolerance_numbers_are_equal() -> None:
    golden = _golden("INT32", [2], [1, 2], tolerance=0)
    assert golden.difference(_answer("INT32", [2], [1, 2])) is None
    assert golden.difference(_answer("INT32", [2], [1, 3])) == "OUT[1] is 3, expected 2 (tolerance 0)"


def test_text_is_equal() -> None:
    golden = _golden("BYTES", [1], ["cat"])
    assert golden.difference(_answer("BYTES", [1], ["cat"])) is None
    assert golden.difference(_answer("BYTES", [1], ["dog"])) == "OUT[0] is dog, expected cat (tolerance 1e-05)"


def test_type_and_shape_and_presence_count() -> None:
    golden = _golden("FP32", [1, 1], [1.0])
    assert golden.difference(_answer("FP64", [1, 1], [1.0])) == "OUT is FP64 [1, 1], expected FP32 [1, 1]"
    assert golden.difference(_answer("FP32", [1], [1.0])) == "OUT is FP32 [1], expected FP32 [1, 1]"
    assert golden.difference({"outputs": []}) == "it has no output OUT"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[]", "m/1/golden.json: the document: [] where an object is expected"),
        ('{"inputs": {}, "outputs": {}}', "m/1/golden.json: inputs: is empty; give at least one; outputs: is empty"),
        (
            '{"inputs": {"IN": {"datatype": "FP32", "shape": [2], "data": [1]}}, "outputs": {}}',
            "m/1/golden.json: inputs.IN: 1 values do not fill the shape [2]",
        ),
    ],
)
def test_what_is_none_is_said_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(GoldenError) as failure:
        Golden.parse("m/1/golden.json", text)
    assert str(failure.value).startswith(sentence)
