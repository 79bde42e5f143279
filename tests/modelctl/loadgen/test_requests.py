"""The load request of a model."""

import json
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format
from tritonclient.grpc import InferInput
from tritonclient.grpc.model_config_pb2 import ModelConfig
from tritonclient.utils import deserialize_bytes_tensor

from modelctl.loadgen.requests import NoRequest, request_of
from modelctl.repository.model import Model


def model(directory: Path, config: str) -> Model:
    (directory / "1").mkdir()
    parsed = text_format.Parse(f'name: "m" backend: "python" {config}', ModelConfig())
    return Model("m", directory, (1,), parsed, config, ())


def raw(request: InferInput) -> bytes:
    return bytes(request._get_content())


def test_shapes_and_types_are_those_of_the_config_and_the_values_those_of_the_seed(tmp_path: Path) -> None:
    made = model(
        tmp_path,
        """max_batch_size: 8
        input [ { name: "F" data_type: TYPE_FP32 dims: [ 2, 3 ] }, { name: "I" data_type: TYPE_INT64 dims: [ 4 ] },
                { name: "B" data_type: TYPE_BOOL dims: [ 1 ] },
                { name: "O" data_type: TYPE_FP32 dims: [ -1 ] optional: true } ]""",
    )

    first, again, other = (request_of(made, seed) for seed in (1, 1, 2))

    assert [(r.name(), r.datatype(), r.shape()) for r in first] == [
        ("F", "FP32", [1, 2, 3]),
        ("I", "INT64", [1, 4]),
        ("B", "BOOL", [1, 1]),
    ]
    assert [raw(request) for request in first] == [raw(request) for request in again]
    assert raw(first[0]) != raw(other[0])


@pytest.mark.parametrize("datatype", ["FP16", "BF16", "FP64", "UINT8"])
def test_a_model_without_a_batch_dimension_gets_none(tmp_path: Path, datatype: str) -> None:
    (request,) = request_of(model(tmp_path, f'input [ {{ name: "F" data_type: TYPE_{datatype} dims: [ 2 ] }} ]'), 1)

    assert (request.datatype(), request.shape()) == (datatype, [2])


def test_a_golden_inference_is_used_where_there_is_one_and_of_its_batch_the_first(tmp_path: Path) -> None:
    made = model(tmp_path, 'max_batch_size: 8 input [ { name: "T" data_type: TYPE_STRING dims: [ -1 ] } ]')
    golden = {
        "inputs": {"T": {"datatype": "BYTES", "shape": [2, 2], "data": ["a", "b", "c", "d"]}},
        "outputs": {"Y": {"datatype": "FP32", "shape": [2, 1], "data": [1, 2]}},
    }
    (tmp_path / "1" / "golden.json").write_text(json.dumps(golden))

    (request,) = request_of(made, 1)

    assert (request.datatype(), request.shape()) == ("BYTES", [1, 2])
    assert deserialize_bytes_tensor(raw(request)).tolist() == [b"a", b"b"]


def test_numbers_of_a_golden_inference_have_its_type(tmp_path: Path) -> None:
    made = model(tmp_path, 'max_batch_size: 8 input [ { name: "X" data_type: TYPE_FP32 dims: [ -1 ] } ]')
    golden = {
        "inputs": {"X": {"datatype": "FP32", "shape": [1, 3], "data": [[1, 2.5, 3]]}},
        "outputs": {"Y": {"datatype": "FP32", "shape": [1, 1], "data": [1]}},
    }
    (tmp_path / "1" / "golden.json").write_text(json.dumps(golden))

    (request,) = request_of(made, 1)

    assert raw(request) == np.float32([1, 2.5, 3]).tobytes()


@pytest.mark.parametrize(
    ("tensor", "sentence"),
    [
        (
            "data_type: TYPE_FP32 dims: [ -1, 3 ]",
            "m: input X has a variable shape [-1, 3]; put a golden.json into its version, or give a file "
            "(--request), with a typical one, or a sample of "
            "typical dims into model_warmup of its config.pbtxt",
        ),
        (
            "data_type: TYPE_STRING dims: [ 1 ]",
            "m: input X is text; put a golden.json into its version, or give a file (--request), with a typical one",
        ),
        ("dims: [ 1 ]", "m: input X has the type INVALID, of which no values can be made"),
    ],
)
def test_what_cannot_be_guessed_is_asked_for(tmp_path: Path, tensor: str, sentence: str) -> None:
    with pytest.raises(NoRequest) as failure:
        request_of(model(tmp_path, f'max_batch_size: 8 input [ {{ name: "X" {tensor} }} ]'), 1)

    assert str(failure.value) == sentence


def test_an_open_shape_is_that_of_the_warm_up(tmp_path: Path) -> None:
    sample = 'inputs { key: "X" value { data_type: TYPE_FP32 dims: [ 4, 3 ] zero_data: true } }'
    config = 'max_batch_size: 8 input [ { name: "X" data_type: TYPE_FP32 dims: [ -1, 3 ] } ]'
    made = model(tmp_path, f'{config} model_warmup [ {{ name: "one" batch_size: 1 {sample} }} ]')

    (request,) = request_of(made, 1)

    assert (request.shape(), bool(np.frombuffer(raw(request), np.float32).any())) == ([1, 4, 3], True)


def test_a_broken_golden_inference_is_named(tmp_path: Path) -> None:
    made = model(tmp_path, 'max_batch_size: 8 input [ { name: "X" data_type: TYPE_FP32 dims: [ 1 ] } ]')
    (tmp_path / "1" / "golden.json").write_text("{}")

    with pytest.raises(NoRequest, match=r"golden\.json: inputs: is missing; outputs: is missing$"):
        request_of(made, 1)
