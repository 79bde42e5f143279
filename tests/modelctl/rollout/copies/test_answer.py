"""Answers to mirrored requests: parsed from Triton's responses, and compared within the tolerance."""

from __future__ import annotations

import json
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from modelctl.rollout.copies.answer import Difference, NoAnswer, difference, of_grpc, of_http
from tests.modelctl.rollout.copies.triton_answers import answer, binary_body, floats, message, texts


def as_json(*data: Any, datatype: str = "FP32", shape: list[int] | None = None) -> bytes:
    output = {"name": "OUT", "datatype": datatype, "shape": shape or [1, len(data)], "data": list(data)}
    return json.dumps({"model_name": "m", "outputs": [output]}).encode()


def test_the_same_tensors_are_read_from_json_from_binary_and_from_grpc() -> None:
    values, words, flags = floats(0.5, -2), texts(b"one", b"\xff\x00"), np.array([True, False])
    whole = np.array([[2**60]], dtype=np.int64)
    body, json_length = binary_body(OUT=values, WORDS=words, FLAGS=flags, WHOLE=whole)
    over_http, over_grpc = of_http(body, json_length), answer(OUT=values, WORDS=words, FLAGS=flags, WHOLE=whole)
    assert difference(over_grpc, over_http, 0) is None
    assert difference(over_http, over_grpc, 0) is None
    assert [str(one) for one in over_http.values()] == ["FP32 [1, 2]", "BYTES [2]", "BOOL [2]", "INT64 [1, 1]"]
    assert over_http["WORDS"].values.tolist() == [b"one", b"\xff\x00"]
    assert of_http(as_json(0.5, -2), None)["OUT"].values.tolist() == [[0.5, -2.0]]
    assert of_http(as_json("a", "b", datatype="BYTES"), None)["OUT"].values.tolist() == [["a", "b"]]


@pytest.mark.parametrize(
    ("right", "found", "tolerance", "said", "distance"),
    [
        (floats(1, 2), floats(1, 2), 0, None, None),
        # Relative to the expected number if it is over 1, otherwise absolute.
        (floats(1000), floats(1000.9), 1e-3, None, None),
        (floats(1000), floats(1002), 1e-3, "OUT: 1 of 1 values, the farthest by 0.002 (tolerance 0.001)", 0.002),
        (floats(0.001), floats(0.0015), 1e-3, None, None),
        (
            floats(0, 0, 0, 1),
            floats(0.5, 0, 0.25, 1),
            0.1,
            "OUT: 2 of 4 values, the farthest by 0.5 (tolerance 0.1)",
            0.5,
        ),
        (floats(nan, inf, -inf), floats(nan, inf, -inf), 0, None, None),
        (floats(nan), floats(1), 0.5, "OUT: 1 of 1 values, the farthest by inf (tolerance 0.5)", inf),
        (floats(inf), floats(-inf), 0.5, "OUT: 1 of 1 values, the farthest by inf (tolerance 0.5)", inf),
        (np.array([2**60]), np.array([2**60 + 1]), 0, "OUT: 1 of 1 values, the farthest by 0 (tolerance 0)", 0.0),
        (np.array([7], np.uint8), np.array([8], np.uint8), 0.2, None, None),
        (np.array([7], np.uint8), np.array([5], np.uint8), 0.2, "OUT: 1 of 1 values, the farthest by 0.286", 2 / 7),
        (np.array([True, False]), np.array([True, True]), 0.5, "OUT: 1 of 2 values", None),
        (texts(b"a", b"b"), texts(b"a", b"c"), 0.5, "OUT: 1 of 2 values", None),
        (texts(b"a"), texts(b"a"), 0, None, None),
        (floats(1, 2), floats(1), 0.5, "OUT is FP32 [1, 1], in place of FP32 [1, 2]", None),
        (floats(1), np.array([[1]], np.int32), 0.5, "OUT is INT32 [1, 1], in place of FP32 [1, 1]", None),
        (np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32), 0, None, None),
    ],
)
def test_numbers_are_as_near_as_the_tolerance_and_all_else_is_equal(
    right: Any, found: Any, tolerance: float, said: str | None, distance: float | None
) -> None:
    other = difference(answer(OUT=right), answer(OUT=found), tolerance)
    if said is None:
        assert other is None
        return
    assert other is not None
    assert other.said.startswith(said)
    assert other.distance == (pytest.approx(distance, rel=1e-3) if distance is not None else None)


def test_a_missing_output_is_a_difference_and_one_more_is_none() -> None:
    one, two = answer(A=floats(1)), answer(A=floats(1), B=floats(2))
    assert difference(two, one, 0) == Difference("it has no output B")
    assert difference(one, two, 0) is None


BODY, LENGTH = binary_body(OUT=floats(1, 2))


@pytest.mark.parametrize(
    ("body", "json_length"),
    [
        (b"", None),
        (b"<html>", None),
        (b"[]", None),
        (b'{"outputs": 7}', None),
        (b'{"outputs": [{"name": "OUT"}]}', None),
        (as_json(1, 2, datatype="FP128"), None),
        (as_json(1, 2, shape=[3]), None),
        (as_json("many"), None),
        (BODY[:-4], LENGTH),
        (BODY, LENGTH - 1),
        (BODY, None),
    ],
)
def test_what_is_no_answer_over_http_is_told_without_its_values(body: bytes, json_length: int | None) -> None:
    with pytest.raises(NoAnswer, match=r"^it answers with what is no answer of Triton \([A-Za-z]+\)$"):
        of_http(body, json_length)


def test_what_is_no_answer_over_grpc_is_told() -> None:
    cut = message(OUT=texts(b"one", b"two"))
    for broken in (b"\xff\xff", cut[:-2], message(OUT=floats(1)).replace(b"FP32", b"FP77")):
        with pytest.raises(NoAnswer, match="no answer of Triton"):
            of_grpc(broken)
