"""Check the config of an ONNX model against the model file, as the server does at loading.

The rules come from `ValidateInputs`, `ValidateOutputs` and `CompareDimsSupported` of the backend:
https://github.com/triton-inference-server/onnxruntime_backend/blob/main/src/onnxruntime.cc and onnxruntime_utils.cc.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tritonclient.grpc.model_config_pb2 import DataType, ModelConfig, ModelSequenceBatching

from modelctl.repository import onnx_file
from modelctl.repository.backends import backend_of, model_file_of
from modelctl.repository.onnx_file import OnnxModel, Tensor
from modelctl.repository.problems import Problem
from modelctl.repository.rules.files import Released
from spec.onnx_runtimes import ONNX_RUNTIMES, OnnxRuntime

_CONFIG = "config.pbtxt"

TYPES: Mapping[int, int] = {
    1: DataType.TYPE_FP32,
    2: DataType.TYPE_UINT8,
    3: DataType.TYPE_INT8,
    4: DataType.TYPE_UINT16,
    5: DataType.TYPE_INT16,
    6: DataType.TYPE_INT32,
    7: DataType.TYPE_INT64,
    8: DataType.TYPE_STRING,
    9: DataType.TYPE_BOOL,
    10: DataType.TYPE_FP16,
    11: DataType.TYPE_FP64,
    12: DataType.TYPE_UINT32,
    13: DataType.TYPE_UINT64,
    16: DataType.TYPE_BF16,
}
"""ONNX's type number (TensorProto.DataType) to Triton's type; Triton lacks the other types."""
_START = ModelSequenceBatching.Control.CONTROL_SEQUENCE_START


def read_files(
    config: ModelConfig, released: Released, versions: Sequence[int]
) -> tuple[dict[Path, OnnxModel], list[Problem]]:
    """Return the metadata of the files that the onnxruntime backend loads, by path, and all their problems.

    Missing files, and damaged files with the suffix .onnx, are left to other rules.
    """
    models: dict[Path, OnnxModel] = {}
    problems: list[Problem] = []
    if backend_of(config) != "onnxruntime":
        return models, problems
    names = set(config.cc_model_filenames.values()) or {model_file_of(config) or ""}
    for relative in (Path(str(version)) / name for version in versions for name in sorted(names)):
        relative = relative / "model.onnx" if (released.directory / relative).is_dir() else relative
        path = released.directory / relative
        if relative not in released.files:
            continue
        try:
            models[relative] = model = onnx_file.read(path)
        except onnx_file.NotOnnx as error:
            if path.suffix.lower() != onnx_file.SUFFIX:
                problems.append(Problem(path, f"not an ONNX model: {error}; copy or export it again"))
            continue
        except OSError:
            continue
        for name in sorted(model.external):
            if wrong := released.missing(relative.parent / name):
                problems.append(Problem(path, f"its weights lie in {name!r}, which is {wrong}"))
        newest = max(ONNX_RUNTIMES)
        of_file = (*check_model(model), *check_runtime(model, ONNX_RUNTIMES[newest], f"Triton {newest}"))
        problems += [Problem(path, message) for message in of_file]
        problems += [Problem(released.directory / _CONFIG, f"{message} [{relative}]") for message in check(config, model)]
    return models, problems


def check_model(model: OnnxModel) -> Iterator[str]:
    """Yield why Triton cannot serve the file with any config."""
    if not model.opsets:
        yield "it says no operator set (opset_import); export it again"
    if not model.required or not model.outputs:
        yield f"it has no {'output' if model.required else 'input'}, and a request has to give and get one; export it again"
    for what, tensors in (("input", model.inputs), ("output", model.outputs)):
        for tensor in tensors:
            if tensor.kind != "tensor":
                yield (
                    f"{what} {tensor.name} is a {tensor.kind}, and Triton serves tensors; export it without, "
                    "as zipmap=False does of scikit-learn's classifiers"
                )
            elif tensor.element not in TYPES:
                yield f"{what} {tensor.name} has ONNX's type {tensor.element}, which Triton has not; cast it in the model"


def check_runtime(model: OnnxModel, runtime: OnnxRuntime, server: str) -> Iterator[str]:
    """Yield why the ONNX Runtime of a server (`Triton 26.11`) cannot read the file."""
    if model.ir_version > runtime.ir_version:
        yield (
            f"it is of version {model.ir_version} of the format (ir_version), and the ONNX Runtime {runtime.version} of "
            f"{server} reads up to {runtime.ir_version}; export it with an older onnx"
        )
    for domain, newest in runtime.opsets.items():
        if model.opsets.get(domain, 0) > newest:
            yield (
                f"it needs operator set {model.opsets[domain]} of {domain}, and the ONNX Runtime {runtime.version} of "
                f"{server} has up to {newest}; export it with opset_version={newest}, or take a newer server"
            )


def check(config: ModelConfig, model: OnnxModel) -> Iterator[str]:
    """Yield the differences between a config of the onnxruntime backend and the file. Each begins with the field."""
    inputs, outputs = _by_name(model.inputs), _by_name(model.outputs)
    sequences = config.sequence_batching
    yield from _missing_inputs(config, model)
    for index, tensor in enumerate(config.input):
        where = f"input[{index}]"
        yield from _tensor(where, tensor, inputs, config.max_batch_size, "input")
        if tensor.optional and config.max_batch_size:
            yield f"{where}.optional: the backend has none in a model that batches (max_batch_size {config.max_batch_size})"
        elif tensor.optional and tensor.name in inputs and tensor.name not in model.defaults:
            yield f"{where}.optional: the model has no value of its own for {tensor.name}; leave optional out"
        elif tensor.name in model.defaults and not tensor.optional:
            yield f"{where}: the model has a value of its own for {tensor.name}; write optional: true, or leave it out"
    made = {name for batch in config.batch_output for name in batch.target_name}
    for index, tensor in enumerate(config.output):
        size = 0 if tensor.name in made else config.max_batch_size
        yield from _tensor(f"output[{index}]", tensor, outputs, size, "output", shapes=tensor.name not in made)
    for index, control in enumerate(sequences.control_input):
        yield from _known(f"sequence_batching.control_input[{index}].name", control.name, inputs, "input")
    for index, state in enumerate(sequences.state):
        where = f"sequence_batching.state[{index}]"
        yield from _known(f"{where}.input_name", state.input_name, inputs, "input")
        yield from _known(f"{where}.output_name", state.output_name, outputs, "output")
        for name, known in ((state.input_name, inputs), (state.output_name, outputs)):
            if name in known:
                yield from _type(f"{where}.data_type", state.data_type, known[name])
        yield from _initial_state(where, state, sequences)


def _by_name(tensors: Iterable[Tensor]) -> dict[str, Tensor]:
    return {tensor.name: tensor for tensor in tensors}


def _missing_inputs(config: ModelConfig, model: OnnxModel) -> Iterator[str]:
    given = {tensor.name for tensor in config.input if not tensor.optional}
    given |= {name for batch in config.batch_input for name in batch.target_name}
    given |= {control.name for control in config.sequence_batching.control_input}
    given |= {state.input_name for state in config.sequence_batching.state}
    for tensor in model.required:
        if tensor.name not in given:
            yield f"input: {tensor.name} is missing, which the model needs; it is {_shown(tensor)}"


def _tensor(
    where: str, tensor: Any, known: Mapping[str, Tensor], max_batch_size: int, what: str, *, shapes: bool = True
) -> Iterator[str]:
    yield from _known(f"{where}.name", tensor.name, known, what)
    if tensor.name not in known or known[tensor.name].kind != "tensor":
        return
    yield from _type(f"{where}.data_type", tensor.data_type, known[tensor.name])
    if getattr(tensor, "allow_ragged_batch", False):
        if known[tensor.name].shape not in ((None,), None):
            takes = _shown(known[tensor.name])
            yield f"{where}.allow_ragged_batch: the model has to take {tensor.name} as [-1], and takes {takes}"
    elif shapes:
        yield from _shape(where, tensor, known[tensor.name], max_batch_size)


def _known(where: str, name: str, known: Mapping[str, Tensor], what: str) -> Iterator[str]:
    if name not in known:
        yield f"{where}: the model has no {what} {name}; it has {', '.join(known) or 'none'}"


def _type(where: str, data_type: int, tensor: Tensor) -> Iterator[str]:
    has = TYPES.get(tensor.element)
    if has is not None and data_type != has:
        yield f"{where}: {DataType.Name(data_type)}, but {tensor.name} is {DataType.Name(has)} in the model"


def _shape(where: str, tensor: Any, of: Tensor, max_batch_size: int) -> Iterator[str]:
    """Yield a shape that the backend refuses. Shapes that the file leaves open are accepted, since the runtime may infer
    them."""
    field = f"{where}.reshape.shape" if tensor.HasField("reshape") else f"{where}.dims"
    dims = list(tensor.reshape.shape if tensor.HasField("reshape") else tensor.dims)
    if of.shape is None:
        return
    if max_batch_size and (not of.shape or of.shape[0] is not None):
        yield (
            f"{where}: {of.name} is {_shown(of)} in the model, whose first size does not vary, so there is no room for a "
            "batch; write max_batch_size: 0 and all sizes in dims, or export it with a first size that varies"
        )
    elif not of.shape:
        if any(size != 1 for size in dims):
            yield f"{field}: {dims}, but {of.name} is a scalar in the model; write [ 1 ]"
    else:
        wanted = of.shape[1:] if max_batch_size else of.shape
        if len(dims) != len(wanted) or any(size not in (None, given) for size, given in zip(wanted, dims, strict=True)):
            without = ", and dims are without its first size, the batch" if max_batch_size else ""
            yield f"{field}: {dims}, but {of.name} is {_shown(of)} in the model{without}; write {_dims(wanted)}"


def _initial_state(where: str, state: ModelSequenceBatching.State, sequences: ModelSequenceBatching) -> Iterator[str]:
    """Yield a state that starts with undefined memory.

    https://github.com/triton-inference-server/server/blob/main/docs/user_guide/implicit_state_management.md
    """
    told = any(control.kind == _START for given in sequences.control_input for control in given.control)
    if not state.initial_state and not told:
        zero = f'name: "zero" data_type: {DataType.Name(state.data_type)} dims: {list(state.dims)} zero_data: true'
        yield (
            f"{where}.initial_state: missing, so a sequence begins with whatever the memory holds; "
            f"write initial_state {{ {zero} }}"
        )


def _shown(tensor: Tensor) -> str:
    name = DataType.Name(TYPES[tensor.element]) if tensor.element in TYPES else f"of type {tensor.element}"
    return name if tensor.shape is None else f"{name} {_dims(tensor.shape)}"


def _dims(shape: Sequence[int | None]) -> str:
    return f"[{', '.join(str(-1 if size is None else size) for size in shape)}]"
