"""Message bodies and tensors: accepted ones, and messages about the others."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import InferResult, service_pb2

from tests.worker.requests import echo
from worker.message import InputTensor, Malformed, parse
from worker.store import failure_key, result_key
from worker.tensors import HEADER_LENGTH, result_document, to_input

_NO_NUMBERS = [(float("nan"), "NaN"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity")]
TENSOR = {"name": "IN", "datatype": "FP32", "shape": [2], "data": [1, 2.5]}


def tensor(**changes: Any) -> InputTensor:
    return InputTensor.model_validate({key: value for key, value in {**TENSOR, **changes}.items() if value is not None})


def sent(wanted: InputTensor, content: bytes | None = None) -> Any:
    return to_input(wanted, content)._get_content()


def test_a_full_message_is_read() -> None:
    reply = "https://sqs.us-west-2.amazonaws.com/123456789012/answers"
    more = {"version": "2", "outputs": [{"name": "OUT"}], "parameters": {"t": 0.5, "n": 3, "s": "x", "b": True}}
    request = parse(json.dumps(echo(1, **more, result="binary", reply_to=reply)))
    assert (request.version, request.outputs[0].name, request.reply_to) == ("2", "OUT", reply)
    assert request.parameters == {"t": 0.5, "n": 3, "s": "x", "b": True}
    assert result_key(request, "m") == "results/echo/m.bin"
    assert failure_key("m") == "failures/m.json"


@pytest.mark.parametrize(("datatype", "sign"), [("FP32", -1), ("FP16", -1), ("INT32", 1)])
def test_a_zero_keeps_its_sign_where_its_type_has_one(datatype: str, sign: int) -> None:
    body = json.dumps(echo(7, inputs=[{**TENSOR, "datatype": datatype, "data": [7, 0]}])).replace("7", "-0")
    (given,) = parse(body).inputs
    numbers = np.frombuffer(sent(given), dtype={"FP32": "<f4", "FP16": "<f2", "INT32": "<i4"}[datatype])
    assert numbers.tolist() == [0, 0]
    assert [math.copysign(1, number) for number in numbers] == [sign, 1]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("{", "Invalid JSON: EOF while parsing an object"),
        ("[]", "Input should be an object"),
        (json.dumps({"model": "a"}), "inputs: Field required"),
        (json.dumps(echo(1, model="../a")), "model: String should match pattern"),
        (json.dumps(echo(1, version=2)), "version: Input should be a valid string"),
        (json.dumps(echo(1, typo=2)), "typo: Extra inputs are not permitted"),
        (json.dumps(echo(1, parameters={"sequence_id": 1})), "parameters: sequence_id cannot be given through a queue"),
        *(
            (json.dumps(echo(1, parameters={"timeout": given_})), "timeout: a whole number of microseconds is expected")
            for given_ in ("1s", 1.5, -1, True)
        ),
        (json.dumps(echo(1, inputs=[{**TENSOR, "source": "s3://bucket/inputs/a"}])), "inputs[0]: Value error, give either"),
        (json.dumps(echo(1, inputs=[{**TENSOR, "datatype": "FLOAT"}])), "inputs[0].datatype: Input should be 'BOOL'"),
        (
            json.dumps(echo(1, inputs=[{**TENSOR, "shape": [-1]}])),
            "inputs[0].shape[0]: Input should be greater than or equal",
        ),
        (json.dumps(echo(1, inputs=[TENSOR, TENSOR])), "inputs: IN is there twice"),
        (json.dumps(echo(1, outputs=[{"name": "O"}] * 2)), "outputs: O is there twice"),
        (json.dumps(echo(1, parameters={"n": 2**63})), "parameters: n: a whole number of more than 64 bits cannot be sent"),
        (
            json.dumps(echo(1, inputs=[{**TENSOR, "source": "s3://bucket/inputs/\x07"}])),
            "inputs[0].source: String should match",
        ),
        *((json.dumps(echo(number)), f"{name} is no number of JSON") for number, name in _NO_NUMBERS),
        (json.dumps(echo(7)).replace("7", "1e999"), "1e999 is beyond every type of number"),
        (
            json.dumps(echo(1)).replace('"model"', '"model": "other", "model"'),
            'the key "model" is there twice in one object',
        ),
        (json.dumps(echo(1, parameters={"a": 1})).replace('"a"', '"a": 2, "a"'), 'the key "a" is there twice in one object'),
        (json.dumps(echo(7)).replace("7", "9" * 5000), "number out of range"),
        ("[" * 100_000, "recursion limit exceeded"),
        ("", "Invalid JSON: EOF while parsing a value"),
        ("\ufeff" + json.dumps(echo(1)), "Invalid JSON: expected value at line 1 column 1"),
        (json.dumps(echo(1)) + "x", "Invalid JSON: trailing characters"),
        (json.dumps(echo(1, version="1\u0663")), "version: String should match pattern"),
        (
            json.dumps(echo(1, parameters={"a": None})),
            "parameters.a: text, a whole number, a number, true or false is expected",
        ),
        (
            json.dumps(echo(1, parameters={"a": [1]})),
            "parameters.a: text, a whole number, a number, true or false is expected",
        ),
        (json.dumps(echo(1, parameters={"a\0": 1})), "parameters.a\0.[key]: String should match"),
        (json.dumps(echo(1, inputs=[{**TENSOR, "name": "a\0"}])), "inputs[0].name: String should match"),
        (json.dumps(echo(1, inputs=[{**TENSOR, "name": "a\u2028"}])), "inputs[0].name: String should match"),
        (
            json.dumps(echo(1, inputs=[{**TENSOR, "data": None, "source": "s3://bucket/inputs/../a"}])),
            "source: a key with . or ..",
        ),
        (json.dumps(echo(7)).replace("7", "-0.1e-400"), "-0.1e-400 is too small for every type of number"),
        (json.dumps(echo(1, inputs=[{**TENSOR, "shape": [True]}])), "inputs[0].shape[0]: Input should be a valid integer"),
        (json.dumps(echo(1, inputs=[{**TENSOR, "shape": [2.0]}])), "inputs[0].shape[0]: Input should be a valid integer"),
        (json.dumps(echo(1, inputs=[{**TENSOR, "shape": [2**63]}])), "inputs[0].shape[0]: Input should be less than"),
        (json.dumps(echo(1, inputs=[{**TENSOR, "shape": [1] * 33}])), "inputs[0].shape: Tuple should have at most 32 items"),
        (json.dumps(echo(1)).replace("1]", "01]", 1), "Invalid JSON"),
        (json.dumps(echo(1, model="a")).replace('"a"', '"\\ud800"'), "Invalid JSON: unexpected end of hex escape"),
        (
            json.dumps(echo(1, inputs=[{**TENSOR, "data": None, "source": "s3://bucket/inputs/" + "é" * 509}])),
            "source: a key of 1025 bytes; S3 has none of more than 1024",
        ),
    ],
    ids=range(44),
)
def test_a_mistake_is_said_with_its_place(body: str, said: str) -> None:
    with pytest.raises(Malformed) as caught:
        parse(body)
    assert said in str(caught.value)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
_KEYS = ["model", "inputs", "version", "outputs", "parameters", "result", "reply_to"]
_TENSOR_KEYS = ["name", "datatype", "shape", "data", "source"]


@given(_JSON, st.sampled_from([*_KEYS, *_TENSOR_KEYS, "other"]))
def test_any_value_in_any_place_is_read_or_refused(value: Any, key: str) -> None:
    tensor_ = {**TENSOR, key: value} if key in _TENSOR_KEYS else TENSOR
    body = (
        echo(1, inputs=[tensor_], **({} if key in _TENSOR_KEYS else {key: value}))
        if key != "inputs"
        else echo(1, inputs=value)
    )
    try:
        request = parse(json.dumps(body))
        for wanted in request.inputs:
            to_input(wanted, None if wanted.source is None else b"\0")
    except Malformed as error:
        assert 0 < len(str(error)) < 1000


_TYPES: dict[str, Any] = {
    "BOOL": np.bool_,
    **{f"{sign}INT{bits}": np.dtype(f"{sign.lower()}int{bits}").type for sign in ("", "U") for bits in (8, 16, 32, 64)},
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
}
_NUMBERS = st.integers() | st.sampled_from([2**e + d for e in (7, 8, 15, 16, 31, 32, 53, 63, 64, 100) for d in (-1, 0, 1)])
_ELEMENT = st.booleans() | _NUMBERS | _NUMBERS.map(lambda n: -n) | st.floats() | st.text() | st.none()


@given(st.lists(_ELEMENT, min_size=1, max_size=4), st.sampled_from([*_TYPES, "BYTES"]), st.booleans())
def test_what_is_accepted_is_what_was_sent(data: list[Any], datatype: str, nested: bool) -> None:
    given_ = {
        "name": "IN",
        "datatype": datatype,
        "shape": [len(data), 1],
        "data": [[item] for item in data] if nested else data,
    }
    try:
        (wanted,) = parse(json.dumps(echo(1, inputs=[given_]))).inputs
        content = sent(wanted)
    except Malformed:
        return
    if datatype == "BYTES":
        assert content == b"".join(struct.pack("<I", len(item.encode())) + item.encode() for item in data)
        return
    back = np.frombuffer(content, _TYPES[datatype]).tolist()
    if datatype.startswith("FP"):
        assert all(type(item) in (int, float) and abs(item) != math.inf for item in back + data)
        assert back == [_TYPES[datatype](item) for item in data]
    else:
        assert back == data
        assert [type(item) for item in back] == [type(item) for item in data]


@given(st.text())
def test_no_body_is_a_fault_of_the_worker(body: str) -> None:
    with pytest.raises(Malformed):
        parse(body)


@pytest.mark.parametrize(
    ("changes", "bytes_"),
    [
        ({}, struct.pack("<2f", 1, 2.5)),
        ({"shape": [2, 1], "data": [[1], [2.5]]}, struct.pack("<2f", 1, 2.5)),
        ({"datatype": "INT16", "data": [-3, 4]}, struct.pack("<2h", -3, 4)),
        ({"datatype": "BOOL", "data": [True, False]}, b"\1\0"),
        ({"datatype": "BYTES", "data": ["é", ""]}, b"\2\0\0\0\xc3\xa9\0\0\0\0"),
        ({"datatype": "BF16", "data": [1, 2]}, b"\x80\x3f\x00\x40"),
        ({"shape": [0], "data": []}, b""),
        ({"shape": [2, 0], "data": [[], []]}, b""),
        ({"shape": [1, 2, 1], "data": [[[1], [2]]]}, struct.pack("<2f", 1, 2)),
        ({"shape": [2, 1], "data": [1, 2]}, struct.pack("<2f", 1, 2)),
        ({"datatype": "FP16", "data": [65519, -65504]}, b"\xff\x7b\xff\xfb"),
        ({"data": [3.4028235e38, 0.1]}, struct.pack("<2f", 3.4028235e38, 0.1)),
        ({"datatype": "FP64", "data": [1.7976931348623157e308, 5e-324]}, struct.pack("<2d", 1.7976931348623157e308, 5e-324)),
        ({"data": [16777217.0, 2**100]}, struct.pack("<2f", 16777216, 2**100)),
        ({"datatype": "BF16", "data": [2**100, 1000]}, b"\x80\x71\x7a\x44"),
        ({"datatype": "FP64", "data": [-(2**53), 10**22]}, struct.pack("<2d", -(2**53), 10**22)),
        ({"datatype": "INT64", "data": [2**53 + 1, -(2**63)]}, struct.pack("<2q", 2**53 + 1, -(2**63))),
        ({"datatype": "UINT64", "data": [0, 2**64 - 1]}, struct.pack("<2Q", 0, 2**64 - 1)),
    ],
)
def test_elements_become_what_triton_takes(changes: dict[str, Any], bytes_: bytes) -> None:
    assert sent(tensor(**changes)) == bytes_


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"data": [1]}, "1 elements where the shape [2] has 2"),
        ({"data": [1, "2"]}, 'data[1]: "2" where a number is expected'),
        ({"data": [1, True]}, "data[1]: true where a number is expected"),
        ({"datatype": "UINT8", "data": [1, 256]}, "data[1]: 256 is no whole number from 0 to 255"),
        (
            {"datatype": "INT32", "data": [1, 2.5]},
            "data[1]: 2.5 is no whole number from -2147483648 to 2147483647",
        ),
        ({"datatype": "BOOL", "data": [1, 0]}, "data[0]: 1 where true or false is expected"),
        ({"datatype": "BYTES", "data": ["a", 1]}, "data[1]: 1 where text is expected"),
        *(
            ({"datatype": kind, "data": [given, None]}, f"data[1]: null where {expected} is expected")
            for kind, given, expected in (
                ("FP32", 1, "a number"),
                ("FP16", 1, "a number"),
                ("BF16", 1, "a number"),
                ("FP64", 1, "a number"),
                ("INT64", 1, "a number"),
                ("UINT8", 1, "a number"),
                ("BOOL", True, "true or false"),
                ("BYTES", "a", "text"),
            )
        ),
        ({"data": [None, None]}, "data[0]: null where a number is expected"),
        ({"shape": [2, 1], "data": [[1], [None]]}, "data[1][0]: null where a number is expected"),
        ({"data": [1, {"a": 1}]}, 'data[1]: {"a": 1} where a number is expected'),
        ({"datatype": "FP16", "data": [1, 65520]}, "data[1]: 65520 is beyond FP16, whose largest number is 65504"),
        (
            {"data": [-3.4028236e38, 1]},
            "data[0]: -3.4028236e+38 is beyond FP32, whose largest number is 3.4028e38",
        ),
        (
            {"datatype": "BF16", "data": [1, 3.4e38]},
            "data[1]: 3.4e+38 is beyond BF16, whose largest number is 3.3895e38",
        ),
        (
            {"datatype": "INT64", "data": [1, 2**63]},
            f"data[1]: {2**63} is no whole number from {-(2**63)} to {2**63 - 1}",
        ),
        ({"datatype": "UINT64", "data": [1, -1]}, f"data[1]: -1 is no whole number from 0 to {2**64 - 1}"),
        (
            {"datatype": "FP64", "data": [1, 2**53 + 1]},
            f"data[1]: {2**53 + 1} has more than 53 bits, and FP64 would change it",
        ),
        ({"data": [-(10**17) - 1, 1]}, f"data[0]: {-(10**17) - 1} has more than 53 bits, and FP32 would change it"),
        ({"data": [1, 10**400]}, "data[1]: 1" + "0" * 59 + "… is beyond FP32, whose largest number is 3.4028e38"),
        (
            {"datatype": "FP64", "data": [1, 10**400]},
            "data[1]: 1" + "0" * 59 + "… is beyond FP64, whose largest number is 1.7976e308",
        ),
        # Ragged, or nested differently from the shape.
        ({"shape": [2, 2], "data": [[1, 2], [3]]}, "data[1]: a list of 1 where the shape [2, 2] has one of 2"),
        ({"shape": [2, 2], "data": [[1, 2, 3], [4]]}, "data[0]: a list of 3 where the shape [2, 2] has one of 2"),
        ({"shape": [2, 2], "data": [[1, 2], 3, 4]}, "data: a list of 3 where the shape [2, 2] has one of 2"),
        ({"shape": [2, 2], "data": [[1, 2], 3]}, "data[1]: 3 where the shape [2, 2] has a list of 2"),
        ({"shape": [3], "data": [[1, 2], [3]]}, "data: a list of 2 where the shape [3] has one of 3"),
        ({"shape": [2], "data": [[1], [2]]}, "data[0]: [1] where a number is expected"),
        ({"shape": [1, 2], "data": [[[1, 2]]]}, "data[0]: a list of 1 where the shape [1, 2] has one of 2"),
        (
            {"shape": [1, 2, 2], "data": [[[1, 2], [3]]]},
            "data[0][1]: a list of 1 where the shape [1, 2, 2] has one of 2",
        ),
    ],
)
def test_elements_that_do_not_fit_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(Malformed) as caught:
        to_input(tensor(**changes), None)
    assert str(caught.value) == f"input IN: {said}"


def test_what_lies_at_a_source_has_to_fit_the_shape() -> None:
    source = "s3://bucket/inputs/a"
    halves = tensor(data=None, source=source, datatype="BF16")
    assert sent(halves, b"\x80\x3f\x00\x40") == b"\x80\x3f\x00\x40"
    assert sent(tensor(data=None, source=source), struct.pack("<2f", 1, 2)) == struct.pack("<2f", 1, 2)
    with pytest.raises(Malformed, match=r"s3://bucket/inputs/a holds 1 elements and the shape \[2\] 2"):
        to_input(tensor(data=None, source=source), struct.pack("<f", 1))
    with pytest.raises(Malformed):
        to_input(tensor(data=None, source=source, datatype="BYTES"), b"\x09\0\0\0abc")
    assert tensor(data=None, source=source).location == ("bucket", "inputs/a")


def _result() -> InferResult:
    response = service_pb2.ModelInferResponse(model_name="m", model_version="3")
    for name, datatype, shape, raw in (
        ("F", "FP32", [2], np.array([np.nan, -np.inf], np.float32).tobytes()),
        ("B", "BF16", [2], b"\x80\x3f\x00\x40"),
        ("S", "BYTES", [1], b"\2\0\0\0\xc3\xa9"),
    ):
        response.outputs.add(name=name, datatype=datatype, shape=shape)
        response.raw_output_contents.append(raw)
    return InferResult(response)


def test_a_json_result_has_text_for_numbers_that_json_does_not_have() -> None:
    body, kind, metadata = result_document(_result(), "id", "json")
    assert (kind, metadata) == ("application/json", {})
    assert json.loads(body) == {
        "id": "id",
        "model_name": "m",
        "model_version": "3",
        "outputs": [
            {"name": "F", "datatype": "FP32", "shape": [2], "data": ["NaN", "-Infinity"]},
            {"name": "B", "datatype": "BF16", "shape": [2], "data": [1.0, 2.0]},
            {"name": "S", "datatype": "BYTES", "shape": [1], "data": ["é"]},
        ],
    }


def test_a_binary_result_is_its_head_and_the_tensors() -> None:
    body, kind, metadata = result_document(_result(), "id", "binary")
    head = int(metadata[HEADER_LENGTH])
    sizes = [output["parameters"]["binary_data_size"] for output in json.loads(body[:head])["outputs"]]
    assert (kind, sizes, len(body) - head) == ("application/octet-stream", [8, 4, 6], 18)
    assert body.endswith(b"\x80\x3f\x00\x40\2\0\0\0\xc3\xa9")
