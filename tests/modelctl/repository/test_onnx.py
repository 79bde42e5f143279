"""An ONNX file's own declaration, and a config that contradicts it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data
from onnx.helper import make_node

from modelctl.release.progress import Silent
from modelctl.release.publish import prepare
from modelctl.repository import onnx_file
from modelctl.repository.load import validate
from modelctl.repository.onnx_file import NotOnnx, OnnxModel, Tensor
from modelctl.repository.problems import ValidationFailed
from modelctl.store.bucket import PART_BYTES
from spec.onnx_runtimes import ONNX_RUNTIMES, OnnxRuntime
from spec.versions import TRITON_RELEASES
from tests import onnx_models
from tests.modelctl.stacks import wants, write_stack

CONFIG = """
backend: "onnxruntime"
max_batch_size: 8
input [ { name: "A" data_type: TYPE_FP32 dims: [ 2 ] }, { name: "B" data_type: TYPE_FP32 dims: [ 2 ] } ]
output [ { name: "SUM" data_type: TYPE_FP32 dims: [ 2 ] }, { name: "DIFFERENCE" data_type: TYPE_FP32 dims: [ 2 ] } ]
dynamic_batching { default_queue_policy { max_queue_size: 64 default_timeout_microseconds: 1000000 } }
instance_group [ { kind: KIND_GPU count: 1 } ]
"""
SEQUENCES = """
backend: "onnxruntime"
input [ { name: "X" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "TOTAL" data_type: TYPE_FP32 dims: [ 1 ] } ]
sequence_batching {
  max_sequence_idle_microseconds: 5000000
  state [
    {
      input_name: "STATE" output_name: "NEXT" data_type: TYPE_FP32 dims: [ 1 ]
      initial_state { name: "zero" data_type: TYPE_FP32 dims: [ 1 ] zero_data: true }
    }
  ]
}
instance_group [ { kind: KIND_GPU count: 1 } ]
"""


def repository(folder: Path, config: str, model: onnx.ModelProto | bytes, file: str = "model.onnx") -> Path:
    (folder / "m" / "1").mkdir(parents=True)
    (folder / "m" / "config.pbtxt").write_text(config)
    content = model if isinstance(model, bytes) else model.SerializeToString()
    (folder / "m" / "1" / file).write_bytes(content)
    return folder


def messages(folder: Path) -> list[str]:
    """Return all mistakes, with paths relative to the model."""
    return [str(problem).removeprefix(f"{folder}/m/") for problem in validate(folder)]


def written(path: Path, model: onnx.ModelProto) -> Path:
    path.write_bytes(model.SerializeToString())
    return path


def test_a_file_says_its_inputs_outputs_and_operator_sets(tmp_path: Path) -> None:
    shape = [None, "w", 3]
    inputs = {"X": ("FLOAT", shape), "W": ("FLOAT", [3]), "S": ("STRING", [])}
    made = onnx_models.model([make_node("Add", ["X", "W"], ["Y"])], inputs, {"Y": ("FLOAT", None)})
    made.graph.initializer.append(numpy_helper.from_array(np.ones(3, np.float32), "W"))
    made.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", 3))

    read = onnx_file.read(written(tmp_path / "m.onnx", made))

    x, w, s = Tensor("X", "tensor", 1, (None, None, 3)), Tensor("W", "tensor", 1, (3,)), Tensor("S", "tensor", 8, ())
    assert read == OnnxModel(8, {"ai.onnx": 17, "ai.onnx.ml": 3}, (x, w, s), (Tensor("Y", "tensor", 1),), frozenset({"W"}))
    assert read.required == (x, s)


@given(st.data())
def test_a_file_that_is_cut_off_or_damaged_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    whole = bytearray(onnx_models.sums().SerializeToString())
    for _ in range(data.draw(st.integers(0, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "m.onnx"
    path.write_bytes(bytes(whole[: data.draw(st.integers(0, len(whole)))]))
    try:
        assert onnx_file.read(path).ir_version >= 0
    except NotOnnx as error:
        assert str(error)


@pytest.mark.parametrize(
    ("begins", "letter"), [(b"", b"x"), (b"\x08\x08\x3a\x80\xda\xc4\x09", b"\x18")], ids=["model", "graph"]
)
def test_a_file_of_one_letter_is_refused_before_somebody_waits_for_it(tmp_path: Path, begins: bytes, letter: bytes) -> None:
    (tmp_path / "m.onnx").write_bytes(begins + letter * 20_000_000)  # each pair looks like a field that ONNX may get
    with pytest.raises(NotOnnx, match="more than 2000000 fields stand from byte"):
        onnx_file.read(tmp_path / "m.onnx")


def test_every_cut_of_a_file_is_told(tmp_path: Path) -> None:
    whole = onnx_models.sums().SerializeToString()
    path = tmp_path / "m.onnx"
    for length in range(len(whole) - 6):  # the rest are its operator sets
        path.write_bytes(whole[:length])
        with pytest.raises(NotOnnx):
            onnx_file.read(path)


@pytest.mark.parametrize(
    ("bytes_there", "entries", "sentence"),
    [
        (24, {"length": 24}, None),
        (23, {"length": 24}, "its weights end at byte 24 of 'w.bin', which has 23, so that one is cut off or another's"),
        (
            48,
            {"offset": -24, "length": 24},
            "its weights lie in 'w.bin' at offset -24 with length 24; neither can be negative",
        ),
        (
            48,
            {"offset": 24, "length": -24},
            "its weights lie in 'w.bin' at offset 24 with length -24; neither can be negative",
        ),
        (None, {}, "its weights lie in 'w.bin', which is not beside it"),
        (24, {"location": "../w.bin"}, "its weights lie in '../w.bin', which leads out of the directory of the model"),
        (24, {"location": "w\0.bin"}, "its weights lie in 'w\\x00.bin', which is not beside it"),
        (24, {"location": "w" * 300}, f"its weights lie in '{'w' * 300}', which is not beside it"),
    ],
)
def test_weights_in_another_file_have_to_be_there(
    tmp_path: Path, bytes_there: int | None, entries: dict, sentence: str | None
) -> None:
    made = onnx_models.sums()
    weight = numpy_helper.from_array(np.ones(6, np.float32), "W")
    set_external_data(weight, **{"location": "w.bin", **entries})
    weight.ClearField("raw_data")
    made.graph.initializer.append(weight)
    path = written(tmp_path / "m.onnx", made)
    if bytes_there is not None:
        (tmp_path / "w.bin").write_bytes(bytes(bytes_there))

    if sentence is None:
        assert onnx_file.read(path).external == {"w.bin": "W"}
    else:
        with pytest.raises(NotOnnx) as refused:
            onnx_file.read(path)
        assert str(refused.value) == sentence


def _elsewhere(location: str, name: str) -> TensorProto:
    weight = numpy_helper.from_array(np.ones(2, np.float32), name)
    set_external_data(weight, location=location)
    weight.ClearField("raw_data")
    return weight


def _constant() -> ModelProto:
    pair = ("FLOAT", ["batch", 2])
    nodes = [make_node("Constant", [], ["W"], value=_elsewhere("w.bin", "W")), make_node("Add", ["IN", "W"], ["OUT"])]
    return onnx_models.model(nodes, {"IN": pair}, {"OUT": pair})


def _branch() -> ModelProto:
    def graph(name: str, weight: TensorProto) -> GraphProto:
        out = helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])
        return helper.make_graph([make_node("Identity", ["V"], [name])], name, [], [out], [weight])

    one, other = numpy_helper.from_array(np.ones(2, np.float32), "V"), _elsewhere("w.bin", "V")
    node = make_node("If", ["IN"], ["OUT"], then_branch=graph("a", one), else_branch=graph("b", other))
    return onnx_models.model([node], {"IN": ("BOOL", [1])}, {"OUT": ("FLOAT", [2])})


@pytest.mark.parametrize(("made", "tensor"), [(_constant(), "W"), (_branch(), "V")], ids=["a constant", "a branch"])
def test_weights_of_nodes_in_another_file_have_to_be_there_too(tmp_path: Path, made: ModelProto, tensor: str) -> None:
    path = written(tmp_path / "m.onnx", made)
    with pytest.raises(NotOnnx, match=r"its weights lie in 'w\.bin', which is not beside it"):
        onnx_file.read(path)

    (tmp_path / "w.bin").write_bytes(bytes(8))
    assert onnx_file.read(path).external == {"w.bin": tensor}
    onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def _field(number: int, content: bytes) -> bytes:
    size, length = len(content), b""
    while size >= 0x80:
        size, length = size >> 7, length + bytes([size & 0x7F | 0x80])
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def test_graphs_in_graphs_without_end_are_refused(tmp_path: Path) -> None:
    node = b""
    for _ in range(34):
        node = _field(5, _field(6, _field(1, node)))  # an attribute, its graph, a node of that
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx_models.sums().SerializeToString() + _field(7, _field(1, node)))
    with pytest.raises(NotOnnx, match="more than 33 graphs stand in each other"):
        onnx_file.read(path)


def test_weights_may_lie_in_a_directory_beside_the_model(tmp_path: Path) -> None:
    made = onnx_models.sums()
    made.graph.initializer.append(_elsewhere("data/w.bin", "W"))
    folder = repository(tmp_path, CONFIG, made)
    (folder / "m" / "1" / "data").mkdir()
    (folder / "m" / "1" / "data" / "w.bin").write_bytes(bytes(8))

    assert messages(folder) == []


def test_weights_that_a_release_leaves_out_are_told(tmp_path: Path) -> None:
    made = onnx_models.sums()
    weight = numpy_helper.from_array(np.ones(6, np.float32), "W")
    set_external_data(weight, location=".weights")
    weight.ClearField("raw_data")
    made.graph.initializer.append(weight)
    folder = repository(tmp_path, CONFIG, made)
    (folder / "m" / "1" / ".weights").write_bytes(bytes(24))

    assert messages(folder) == [
        "1/model.onnx: its weights lie in '.weights', which is left out of the release, as its name begins with a dot or is "
        "that of a backup or cache; rename it"
    ]


@pytest.mark.parametrize(
    ("config", "model"),
    [
        (CONFIG, onnx_models.sums),
        (CONFIG.replace("max_batch_size: 8", 'max_batch_size: 8 default_model_filename: "sums"'), onnx_models.sums),
        (SEQUENCES, onnx_models.running_total),
    ],
)
def test_a_config_of_the_model_is_right(tmp_path: Path, config: str, model: Callable[[], onnx.ModelProto]) -> None:
    assert messages(repository(tmp_path, config, model(), "sums" if '"sums"' in config else "model.onnx")) == []


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"B" data_type: TYPE_FP32', '"C" data_type: TYPE_FP32', "input[1].name: the model has no input C; it has A, B"),
        (
            '{ name: "A" data_type: TYPE_FP32 dims: [ 2 ] }, ',
            "",
            "input: A is missing, which the model needs; it is TYPE_FP32 [-1, 2]",
        ),
        ('"SUM"', '"TOTAL"', "output[0].name: the model has no output TOTAL; it has SUM, DIFFERENCE"),
        (
            '"A" data_type: TYPE_FP32',
            '"A" data_type: TYPE_FP16',
            "input[0].data_type: TYPE_FP16, but A is TYPE_FP32 in the model",
        ),
        (
            '"A" data_type: TYPE_FP32 dims: [ 2 ]',
            '"A" data_type: TYPE_FP32 dims: [ -1, 2 ]',
            "input[0].dims: [-1, 2], but A is TYPE_FP32 [-1, 2] in the model, and dims are without its first size, the "
            "batch; write [2]",
        ),
        (
            '"SUM" data_type: TYPE_FP32 dims: [ 2 ]',
            '"SUM" data_type: TYPE_FP32 dims: [ -1 ]',
            "output[0].dims: [-1], but SUM is TYPE_FP32 [-1, 2] in the model, and dims are without its first size, the "
            "batch; write [2]",
        ),
        (
            '"A" data_type: TYPE_FP32 dims: [ 2 ]',
            '"A" data_type: TYPE_FP32 dims: [ 2 ] optional: true',
            "input[0].optional: the backend has none in a model that batches (max_batch_size 8)",
        ),
    ],
)
def test_a_config_that_is_not_one_of_the_model_is_told(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    assert old in CONFIG
    told = messages(repository(tmp_path, CONFIG.replace(old, new, 1), onnx_models.sums()))
    assert f"config.pbtxt: {sentence} [1/model.onnx]" in told


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            'initial_state { name: "zero" data_type: TYPE_FP32 dims: [ 1 ] zero_data: true }',
            "",
            "sequence_batching.state[0].initial_state: missing, so a sequence begins with whatever the memory holds; "
            'write initial_state { name: "zero" data_type: TYPE_FP32 dims: [1] zero_data: true }',
        ),
        ('"NEXT"', '"LAST"', "sequence_batching.state[0].output_name: the model has no output LAST; it has TOTAL, NEXT"),
        (
            '"NEXT" data_type: TYPE_FP32',
            '"NEXT" data_type: TYPE_INT32',
            "sequence_batching.state[0].data_type: TYPE_INT32, but STATE is TYPE_FP32 in the model",
        ),
    ],
)
def test_a_state_that_is_not_one_of_the_model_is_told(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    assert old in SEQUENCES
    told = messages(repository(tmp_path, SEQUENCES.replace(old, new, 1), onnx_models.running_total()))
    assert f"config.pbtxt: {sentence} [1/model.onnx]" in told


def test_a_batch_needs_a_first_size_that_varies(tmp_path: Path) -> None:
    config = CONFIG.replace('"A"', '"IN"').replace('"SUM"', '"OUT"')
    config = config.replace(', { name: "B" data_type: TYPE_FP32 dims: [ 2 ] }', "")
    config = config.replace(', { name: "DIFFERENCE" data_type: TYPE_FP32 dims: [ 2 ] }', "")

    assert messages(repository(tmp_path, config, onnx_models.same("FLOAT", [1, 2]))) == [
        f"config.pbtxt: {field}[0]: {name} is TYPE_FP32 [1, 2] in the model, whose first size does not vary, so there is no "
        "room for a batch; write max_batch_size: 0 and all sizes in dims, or export it with a first size that varies "
        "[1/model.onnx]"
        for field, name in (("input", "IN"), ("output", "OUT"))
    ]


def test_what_triton_cannot_serve_is_told(tmp_path: Path) -> None:
    made = onnx_models.sums()
    made.graph.output.append(onnx.helper.make_tensor_sequence_value_info("LABELS", onnx.TensorProto.FLOAT, None))
    made.graph.output.append(onnx.helper.make_tensor_value_info("WAVE", onnx.TensorProto.COMPLEX64, [2]))

    assert messages(repository(tmp_path, CONFIG, made)) == [
        "1/model.onnx: output LABELS is a sequence, and Triton serves tensors; export it without, as zipmap=False does of "
        "scikit-learn's classifiers",
        "1/model.onnx: output WAVE has ONNX's type 14, which Triton has not; cast it in the model",
    ]


def test_a_file_of_another_name_that_is_no_model_is_told(tmp_path: Path) -> None:
    config = CONFIG.replace("max_batch_size: 8", 'max_batch_size: 8 default_model_filename: "weights"')

    assert messages(repository(tmp_path, config, b"\x08\x08", "weights")) == [
        "1/weights: not an ONNX model: it has no graph; copy or export it again"
    ]


def test_every_release_of_triton_has_its_onnx_runtime() -> None:
    assert list(ONNX_RUNTIMES) == list(TRITON_RELEASES)


def test_a_model_for_a_newer_runtime_than_any_is_told(tmp_path: Path) -> None:
    made = onnx_models.sums()
    made.opset_import[0].version, made.ir_version = 27, 14

    assert messages(repository(tmp_path, CONFIG, made)) == [
        "1/model.onnx: it is of version 14 of the format (ir_version), and the ONNX Runtime 1.28.0 of Triton 26.11 reads up "
        "to 13; export it with an older onnx",
        "1/model.onnx: it needs operator set 27 of ai.onnx, and the ONNX Runtime 1.28.0 of Triton 26.11 has up to 26; "
        "export it with opset_version=26, or take a newer server",
    ]


@pytest.mark.parametrize("wrong", [False, True])
def test_the_operator_set_has_to_be_one_of_the_stacks_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: bool
) -> None:
    """Until a newer release has a newer one, all versions in the table have the same."""
    if wrong:
        monkeypatch.setitem(ONNX_RUNTIMES, "26.07", OnnxRuntime("1.24.4", {"ai.onnx": 25, "ai.onnx.ml": 5}, 13))
    made = onnx_models.sums()
    made.opset_import[0].version = 26
    folder = repository(tmp_path / "models", CONFIG, made)
    file = write_stack(tmp_path / "stacks", {"m": wants(device="gpu", gpuMemoryMiB=700)}, triton={"version": "26.07"})

    if not wrong:
        assert "m/configs/dev.pbtxt" in prepare(folder, PART_BYTES, Silent(), file.parent).objects
        return
    with pytest.raises(ValidationFailed) as refused:
        prepare(folder, PART_BYTES, Silent(), file.parent)
    assert [str(problem) for problem in refused.value.problems] == [
        f"{file}: models: {folder}/m/1/model.onnx: it needs operator set 26 of ai.onnx, and the ONNX Runtime 1.24.4 of "
        "Triton 26.07 has up to 25; export it with opset_version=25, or take a newer server"
    ]
