"""ONNX models on the real tritonserver with the substitute onnxruntime backend: answers and refusals."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc as grpc
from onnx import ModelProto
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from tests import onnx_models
from tests.twin.triton.running import ready_server

SUMS = """
backend: "onnxruntime" max_batch_size: 8
input [ {{ name: "A" data_type: {type} dims: [ {dims} ] }}, {{ name: "{second}" data_type: TYPE_FP32 dims: [ 2 ] }} ]
output [ {{ name: "DIFFERENCE" data_type: TYPE_FP32 dims: [ {out} ] }}, {{ name: "SUM" data_type: TYPE_FP32 dims: [ 2 ] }} ]
dynamic_batching {{ max_queue_delay_microseconds: 200000 preferred_batch_size: [ 4 ] }}
"""
SAME = """
backend: "onnxruntime" max_batch_size: {batch}
input [ {{ name: "IN" data_type: {type} dims: {dims} }} ]
output [ {{ name: "OUT" data_type: {type} dims: {dims} }} ]
"""
TOTAL = """
backend: "onnxruntime"
input [ { name: "X" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "TOTAL" data_type: TYPE_FP32 dims: [ 1 ] } ]
sequence_batching {
  state [
    {
      input_name: "STATE" output_name: "NEXT" data_type: TYPE_FP32 dims: [ 1 ]
      initial_state { name: "zero" data_type: TYPE_FP32 dims: [ 1 ] zero_data: true }
    }
  ]
}
"""


def sums(type: str = "TYPE_FP32", dims: str = "2", second: str = "B", out: str = "2") -> str:
    return SUMS.format(type=type, dims=dims, second=second, out=out)


GOOD: dict[str, tuple[str, ModelProto]] = {
    "sums": (sums(), onnx_models.sums()),
    "half": (SAME.format(batch=4, type="TYPE_FP16", dims="[ 2 ]"), onnx_models.same("FLOAT16", ["n", 2])),
    "text": (SAME.format(batch=0, type="TYPE_STRING", dims="[ -1 ]"), onnx_models.same("STRING", ["n"])),
    "scalar": (SAME.format(batch=0, type="TYPE_INT64", dims="[ 1 ]"), onnx_models.same("INT64", [])),
    "flag": (SAME.format(batch=0, type="TYPE_BOOL", dims="[ 2 ]"), onnx_models.same("BOOL", [2])),
    "total": (TOTAL, onnx_models.running_total()),
}
WRONG: dict[str, tuple[str, ModelProto, str]] = {
    "other_type": (
        sums(type="TYPE_INT32"),
        onnx_models.sums(),
        "configuration expects datatype TYPE_INT32 for input 'A', model provides TYPE_FP32",
    ),
    "other_name": (sums(second="C"), onnx_models.sums(), "unexpected inference input 'C', allowed inputs are: A, B"),
    "other_dims": (
        sums(dims="3"),
        onnx_models.sums(),
        "tensor 'A': the model expects shape [-1, 2], but the model configuration specifies shape [-1, 3]",
    ),
    "wider_output": (
        sums(out="-1"),
        onnx_models.sums(),
        "tensor 'DIFFERENCE': the model expects shape [-1, 2], but the model configuration specifies shape [-1, -1]",
    ),
    "no_batch": (
        SAME.format(batch=4, type="TYPE_FP32", dims="[ 2 ]"),
        onnx_models.same("FLOAT", [1, 2]),
        "tensor 'IN': for the model to support batching the first dimension must be -1; but it is [1, 2]",
    ),
    "bfloat": (
        SAME.format(batch=0, type="TYPE_BF16", dims="[ 2 ]"),
        onnx_models.same("BFLOAT16", [2]),
        "'IN' is a tensor(bfloat16), which the twin's stand-in for the onnxruntime backend does not serve",
    ),
    "too_few": (
        SAME.format(batch=8, type="TYPE_FP32", dims="[ 2 ]"),
        onnx_models.sums(),
        "configuration expects 1 inputs, model provides 2",
    ),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Yield the address and log of a server that has loaded only the good models."""
    folder = tmp_path_factory.mktemp("onnx")
    for name, (config, made, *_) in (GOOD | WRONG).items():  # type: ignore[operator]
        (folder / "models" / name / "1").mkdir(parents=True)
        (folder / "models" / name / "config.pbtxt").write_text(config)
        (folder / "models" / name / "1" / "model.onnx").write_bytes(made.SerializeToString())
    (folder / "models" / "cut_off").mkdir()
    (folder / "models" / "cut_off" / "config.pbtxt").write_text(sums())
    (folder / "models" / "cut_off" / "1").mkdir()
    (folder / "models" / "cut_off" / "1" / "model.onnx").write_bytes(onnx_models.sums().SerializeToString()[:60])
    options = ["--model-control-mode=explicit", *(f"--load-model={name}" for name in GOOD)]
    with ready_server(folder, options) as running:
        yield running


@pytest.fixture
def client(server: tuple[str, Path]) -> Iterator[grpc.InferenceServerClient]:
    with grpc.InferenceServerClient(f"{server[0]}:8001") as client:
        yield client


def _ask(client: grpc.InferenceServerClient, name: str, inputs: dict[str, np.ndarray], **more: Any) -> grpc.InferResult:
    tensors = []
    for key, value in inputs.items():
        tensors.append(grpc.InferInput(key, list(value.shape), np_to_triton_dtype(value.dtype)))
        tensors[-1].set_data_from_numpy(value)
    return client.infer(name, tensors, client_timeout=30, **more)


def test_requests_that_were_batched_each_get_their_own_answer(server: tuple[str, Path]) -> None:
    def ask(number: int) -> tuple[list[list[float]], list[list[float]]]:
        a = np.full((1 + number % 2, 2), number, dtype=np.float32)
        with grpc.InferenceServerClient(f"{server[0]}:8001") as own:
            answer = _ask(own, "sums", {"A": a, "B": np.ones_like(a)})
        return answer.as_numpy("SUM").tolist(), answer.as_numpy("DIFFERENCE").tolist()

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(8)))

    assert answers == [([[n + 1] * 2] * (1 + n % 2), [[n - 1] * 2] * (1 + n % 2)) for n in range(8)]
    statistics = httpx.get(f"http://{server[0]}:8000/v2/models/sums/stats", trust_env=False).json()["model_stats"][0]
    assert statistics["inference_count"] == 12
    assert statistics["execution_count"] < 8


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("half", np.array([[0.5, -2]], dtype=np.float16)),
        ("text", np.array(["zwölf".encode(), b""], dtype=np.object_)),
        ("scalar", np.array([2**40], dtype=np.int64)),
        ("flag", np.array([True, False])),
    ],
)
def test_each_type_comes_back_as_it_went(client: grpc.InferenceServerClient, name: str, value: np.ndarray) -> None:
    assert _ask(client, name, {"IN": value}).as_numpy("OUT").tolist() == value.tolist()


def test_only_outputs_that_are_asked_for_are_answered(client: grpc.InferenceServerClient) -> None:
    pair = np.array([[1, 2]], dtype=np.float32)

    answer = _ask(client, "sums", {"A": pair, "B": pair}, outputs=[grpc.InferRequestedOutput("SUM")])

    assert [output.name for output in answer.get_response().outputs] == ["SUM"]


def test_two_sequences_have_a_state_each_which_begins_anew_with_the_next(client: grpc.InferenceServerClient) -> None:
    def ask(sequence: int, value: float, start: bool = False, end: bool = False) -> float:
        inputs = {"X": np.array([value], dtype=np.float32)}
        answer = _ask(client, "total", inputs, sequence_id=sequence, sequence_start=start, sequence_end=end)
        return float(answer.as_numpy("TOTAL")[0])

    seen = [ask(1, 1, start=True), ask(2, 10, start=True), ask(1, 2), ask(2, 20), ask(1, 3, end=True), ask(1, 5, start=True)]

    assert seen == [1, 10, 3, 30, 6, 5]


@pytest.mark.parametrize("name", WRONG)
def test_a_config_that_is_not_one_of_the_model_is_refused_with_a_sentence(
    client: grpc.InferenceServerClient, name: str
) -> None:
    with pytest.raises(InferenceServerException) as refused:
        client.load_model(name)

    assert f"unable to load model '{name}', {WRONG[name][2]}" in refused.value.message()


def test_a_damaged_model_is_refused_with_a_sentence(client: grpc.InferenceServerClient) -> None:
    with pytest.raises(InferenceServerException, match=r"unable to load model 'cut_off', .*Protobuf parsing failed"):
        client.load_model("cut_off")


def test_the_log_says_that_it_is_a_stand_in(server: tuple[str, Path]) -> None:
    assert "sums: this is the twin's stand-in for the onnxruntime backend: PyPI's onnxruntime " in server[1].read_text()
