"""golden.json has a valid input and a possible answer of the model, or the release reports the mistake."""

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from modelctl.repository.load import validate
from modelctl.repository.rules.golden import check

WHERE = "normalize/1/golden.json: "
SHAPE = "does not fit [-1, 4], the batch first"


def _tensor(**changes: Any) -> dict[str, Any]:
    return {"datatype": "FP32", "shape": [1, 4], "data": [0, 1.5, -2, 3e3], **changes}


def _golden(**changes: Any) -> dict[str, Any]:
    return {"inputs": {"FEATURES": _tensor()}, "outputs": {"NORMALIZED": _tensor()}, **changes}


def _messages(models: Path, text: str, model: str = "normalize") -> list[str]:
    (models / model / "1" / "golden.json").write_text(text)
    return [str(problem).removeprefix(f"{models}/") for problem in validate(models)]


@pytest.mark.parametrize(
    "golden",
    [
        _golden(),
        _golden(tolerance=0),
        _golden(inputs={"FEATURES": _tensor(data=[[0, 1, 2, 3]])}),
        _golden(inputs={"FEATURES": _tensor(shape=[8, 4], data=[0] * 32)}),
    ],
    ids=["flat", "exact", "nested", "a full batch"],
)
def test_an_inference_that_can_be_asked(models: Path, golden: dict[str, Any]) -> None:
    assert _messages(models, json.dumps(golden)) == []


def test_a_version_without_one_is_released_too(models: Path) -> None:
    (models / "normalize" / "1" / "golden.json").unlink()

    assert validate(models) == []


NESTED = "it is nested in another way than the shape [1, 4] says; nest it so, or not at all"
MISTAKES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing is asked": (_golden(inputs={}), ["inputs: is empty; give at least one"]),
    "no outputs, a key too many": (
        {"inputs": {"FEATURES": _tensor()}, "output": {}},
        ["outputs: is missing", "output: unknown key"],
    ),
    "an input is missing": (
        _golden(inputs={"features": _tensor()}),
        [
            "inputs: FEATURES is missing; an inference needs every input of the model",
            "inputs.features: the model has none of this name; it has FEATURES",
        ],
    ),
    "an output that is none": (
        _golden(outputs={"SCORES": _tensor()}),
        ["outputs.SCORES: the model has none of this name; it has NORMALIZED"],
    ),
    "another type": (
        _golden(outputs={"NORMALIZED": _tensor(datatype="FP64")}),
        ["outputs.NORMALIZED.datatype: FP64, but the model has FP32"],
    ),
    "without the batch": (
        _golden(inputs={"FEATURES": _tensor(shape=[4])}),
        [f"inputs.FEATURES.shape: [4] {SHAPE}"],
    ),
    "another size": (
        _golden(inputs={"FEATURES": _tensor(shape=[2, 2])}),
        [f"inputs.FEATURES.shape: [2, 2] {SHAPE}"],
    ),
    "a batch that is too large": (
        _golden(inputs={"FEATURES": _tensor(shape=[9, 4], data=[0] * 36)}),
        ["inputs.FEATURES.shape: a batch of 9 is not between 1 and max_batch_size 8"],
    ),
    "too few values": (
        _golden(inputs={"FEATURES": _tensor(data=[0])}),
        ["inputs.FEATURES: 1 values do not fill the shape [1, 4]"],
    ),
    "text as a number": (
        _golden(inputs={"FEATURES": _tensor(data=[0, "1", 2, 3])}),
        ["inputs.FEATURES.data: '1' at 1 is no FP32"],
    ),
    "a number beyond FP32": (
        _golden(inputs={"FEATURES": _tensor(data=[0, -3.5e38, 2, 3])}),
        ["inputs.FEATURES.data: -3.5e+38 at 1 is no FP32"],
    ),
    "a negative tolerance": (_golden(tolerance=-1), ["tolerance: -1 is too small; at least 0"]),
    "a tolerance of everything": (_golden(tolerance=1e9), ["tolerance: 1000000000.0 is too large; at most 0.5"]),
    "a tolerance that is none": (
        _golden(tolerance=float("nan")),
        ["NaN is no number of JSON; write a number"],
    ),
    "ragged data": (_golden(inputs={"FEATURES": _tensor(data=[[0, 1], [2], [3]])}), [f"inputs.FEATURES: {NESTED}"]),
    "data that is nested in another way": (
        _golden(inputs={"FEATURES": _tensor(data=[[0, 1], [2, 3]])}),
        [f"inputs.FEATURES: {NESTED}"],
    ),
    "lists among numbers": (_golden(inputs={"FEATURES": _tensor(data=[0, [1], 2, 3])}), [f"inputs.FEATURES: {NESTED}"]),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_reported_exactly(models: Path, name: str) -> None:
    golden, expected = MISTAKES[name]

    assert _messages(models, json.dumps(golden)) == [WHERE + message for message in expected]


def test_text_that_is_no_json(models: Path) -> None:
    (message,) = _messages(models, "{")

    assert message.startswith(f"{WHERE}line 1, column 2: not valid JSON: Expecting property name")


@pytest.mark.parametrize(
    ("data", "value"),
    [([2, True], True), ([2, 2.5], 2.5), ([2, 2**31], 2**31), ([2, -0.0], -0.0)],
)
def test_values_must_be_of_the_models_type(models: Path, data: list[Any], value: Any) -> None:
    golden = {
        "inputs": {"NORMALIZED": _tensor(shape=[2, 4], data=[0] * 8)},
        "outputs": {"CLASS": {"datatype": "INT32", "shape": [2, 1], "data": data}},
    }

    assert _messages(models, json.dumps(golden), "classify") == [
        f"classify/1/golden.json: outputs.CLASS.data: {value!r} at 1 is no INT32"
    ]


def test_a_decoupled_model_has_no_one_answer(models: Path) -> None:
    config = models / "normalize" / "config.pbtxt"
    text = config.read_text()
    config.write_text(text + "model_transaction_policy { decoupled: true }\n")

    assert _messages(models, json.dumps(_golden())) == [
        f"{WHERE}a decoupled model gives no one answer that could be compared; remove the file"
    ]


def test_a_sequence_model_has_no_answer_of_its_own(models: Path) -> None:
    config = text_format.Parse((models / "normalize" / "config.pbtxt").read_text(), ModelConfig())
    config.sequence_batching.direct.SetInParent()

    assert list(check(config, models / "normalize" / "1")) == [
        "the answer of a sequence model depends on what it was asked before; remove the file"
    ]
