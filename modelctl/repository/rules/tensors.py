"""Check inputs and outputs; the server completes none of them, since it runs with --disable-auto-complete-config."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from tritonclient.grpc.model_config_pb2 import DataType, ModelConfig, ModelInput, ModelOutput


def check(config: ModelConfig) -> Iterator[str]:
    """Yield mistakes in batch size, inputs and outputs (fatal, except duplicate names).

    Identical duplicates of an output are accepted, as in the server; the ensemble of TensorRT-LLM has one
    (https://github.com/NVIDIA/TensorRT-LLM/blob/main/triton_backend/all_models/inflight_batcher_llm/ensemble/config.pbtxt).
    """
    if config.max_batch_size < 0:
        yield f"max_batch_size: {config.max_batch_size} is negative; 0 means that the model does not batch"
    yield from _tensors("input", config.input)
    yield from _tensors("output", config.output)
    for index, tensor in enumerate(config.input):
        if tensor.format != ModelInput.FORMAT_NONE and len(tensor.dims) != 3:
            layout = ModelInput.Format.Name(tensor.format)
            yield f"input[{index}].format: {layout} needs 3 dims, and there are {len(tensor.dims)}"
    yield from _made_by_the_batcher(config)
    for field, tensors in (("input", config.input), ("output", config.output)):
        for index, tensor in enumerate(tensors):
            if tensor.HasField("reshape"):
                yield from _reshape(f"{field}[{index}].reshape", tensor.dims, tensor.reshape.shape, config.max_batch_size)


def _made_by_the_batcher(config: ModelConfig) -> Iterator[str]:
    """Yield the mistakes that `ValidateBatchIO` of Triton's core refuses: batch tensors built from missing tensors."""
    inputs, outputs = [tensor.name for tensor in config.input], [tensor.name for tensor in config.output]
    made: list[tuple[str, Sequence[str], Sequence[str]]] = []
    for index, given in enumerate(config.batch_input):
        made.append((f"batch_input[{index}].source_input", given.source_input, inputs))
    for index, wanted in enumerate(config.batch_output):
        made.append((f"batch_output[{index}].source_input", wanted.source_input, inputs))
        made.append((f"batch_output[{index}].target_name", wanted.target_name, outputs))
    for where, names, known in made:
        if where.endswith("source_input") and len(names) != 1:
            yield f"{where}: names {len(names)} inputs; it takes one"
        for name in names:
            if name not in known:
                yield f"{where}: the model has no {name}; it has {', '.join(known) or 'none'}"
    for index, given in enumerate(config.batch_input):
        if not given.target_name:
            yield f"batch_input[{index}].target_name: missing; the name of the tensor that the server adds"
        if given.data_type not in (DataType.TYPE_INT32, DataType.TYPE_FP32):
            yield f"batch_input[{index}].data_type: {DataType.Name(given.data_type)}; TYPE_INT32 or TYPE_FP32"


def _reshape(where: str, dims: Sequence[int], shape: Sequence[int], max_batch_size: int) -> Iterator[str]:
    """Yield the mistakes that `ValidateIOShape` of Triton's core refuses: different numbers of elements or of variable
    sizes."""
    if not shape and not max_batch_size:
        yield f"{where}: empty, but the model does not batch (max_batch_size 0), and the server knows no scalars"
    elif [size for size in shape if size < 1 and size != -1]:
        yield f"{where}: {list(shape)}; a size is at least 1, or -1 when it varies"
    elif math.prod(abs(size) for size in dims) != math.prod(abs(size) for size in shape) or (
        list(dims).count(-1) != list(shape).count(-1)
    ):
        yield f"{where}: {list(shape)} has not as many elements as dims {list(dims)}"


def _tensors(field: str, tensors: Sequence[ModelInput] | Sequence[ModelOutput]) -> Iterator[str]:
    if not tensors:
        yield f"{field}: missing; every {field} needs name, data_type and dims"
    for index, tensor in enumerate(tensors):
        where = f"{field}[{index}]"
        if not tensor.name:
            yield f"{where}.name: missing"
        if tensor.data_type == DataType.TYPE_INVALID:
            yield f"{where}.data_type: missing; for example TYPE_FP32"
        if not tensor.dims and not tensor.HasField("reshape"):
            yield f"{where}.dims: missing; the shape without the batch, for example [ 4 ]"
        if wrong := [size for size in tensor.dims if size < 1 and size != -1]:
            yield f"{where}.dims: {wrong[0]} is no size; a size is at least 1, or -1 when it varies"
    for name, times in Counter(tensor.name for tensor in tensors if tensor.name).items():
        if times > 1 and (field == "input" or len({t.SerializeToString() for t in tensors if t.name == name}) > 1):
            yield f"{field}: {name} is declared {times} times; a name is used once"


def check_compute_capabilities(config: ModelConfig) -> Iterator[str]:
    """Yield keys of cc_model_filenames that match no GPU."""
    for key in sorted(config.cc_model_filenames):
        if not re.fullmatch(r"\d{1,2}\.\d", key):
            yield f'cc_model_filenames: "{key}" is no compute capability; keys are written "7.5", "8.0", "8.6"'
