"""Check golden.json next to a model file. The model must be able to take the inference and give the answer.

A rollout sends it to every pod before traffic moves there, so a mistake in it would stop every rollout.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tritonclient.grpc.model_config_pb2 import DataType, ModelConfig

from modelctl import documents
from modelctl.documents import DocumentError
from modelctl.repository.golden import FILE, Golden, Tensor, flat

# The protocol's name of each config type that has a JSON form (FP16 and BF16 have none).
_DATATYPES = {
    DataType.TYPE_BOOL: "BOOL",
    DataType.TYPE_UINT8: "UINT8",
    DataType.TYPE_UINT16: "UINT16",
    DataType.TYPE_UINT32: "UINT32",
    DataType.TYPE_UINT64: "UINT64",
    DataType.TYPE_INT8: "INT8",
    DataType.TYPE_INT16: "INT16",
    DataType.TYPE_INT32: "INT32",
    DataType.TYPE_INT64: "INT64",
    DataType.TYPE_FP32: "FP32",
    DataType.TYPE_FP64: "FP64",
    DataType.TYPE_STRING: "BYTES",
}

_BEYOND_FP32 = 2**128 - 2**103
"""From this value on, a number is infinity in FP32."""


def check(config: ModelConfig, version_directory: Path) -> Iterator[str]:
    """Yield the mistakes in the golden.json of a version, if it has one. Raises OSError."""
    path = version_directory / FILE
    if not path.is_file():
        if path.exists():
            yield "not a file; it is to be one inference and its answer"
        return
    try:
        golden = documents.read(Golden, path.read_bytes())
    except DocumentError as error:
        yield from error.mistakes
        return
    for tensor in config.input:
        if tensor.name not in golden.inputs and not tensor.optional:
            yield f"inputs: {tensor.name} is missing; an inference needs every input of the model"
    if config.model_transaction_policy.decoupled:
        yield "a decoupled model gives no one answer that could be compared; remove the file"
    if config.HasField("sequence_batching"):
        yield "the answer of a sequence model depends on what it was asked before; remove the file"
    yield from _tensors("inputs", golden.inputs, config.input, config.max_batch_size)
    yield from _tensors("outputs", golden.outputs, config.output, config.max_batch_size)


def _tensors(field: str, given: Mapping[str, Tensor], declared: Sequence[Any], max_batch_size: int) -> Iterator[str]:
    by_name = {tensor.name: tensor for tensor in declared}
    for name, tensor in sorted(given.items()):
        where = f"{field}.{name}"
        if name not in by_name:
            yield f"{where}: the model has none of this name; it has {', '.join(by_name) or 'none'}"
            continue
        data_type = by_name[name].data_type
        expected = _DATATYPES.get(data_type)
        if expected is None:
            yield f"{where}: {DataType.Name(data_type)} has no form in JSON; leave it out"
        elif tensor.datatype != expected:
            yield f"{where}.datatype: {tensor.datatype}, but the model has {expected}"
        else:
            yield from _values(f"{where}.data", tensor)
        yield from _shape(f"{where}.shape", list(tensor.shape), list(by_name[name].dims), max_batch_size)


def _shape(where: str, shape: list[int], dims: list[int], max_batch_size: int) -> Iterator[str]:
    wanted = [-1, *dims] if max_batch_size else dims
    if len(shape) != len(wanted) or any(size not in (-1, given) for given, size in zip(shape, wanted, strict=True)):
        yield f"{where}: {shape} does not fit {wanted}{', the batch first' if max_batch_size else ''}"
    elif max_batch_size and not 1 <= shape[0] <= max_batch_size:
        yield f"{where}: a batch of {shape[0]} is not between 1 and max_batch_size {max_batch_size}"


def _values(where: str, tensor: Tensor) -> Iterator[str]:
    for index, value in enumerate(flat(tensor.data)):
        if not _fits(value, tensor.datatype):
            yield f"{where}: {value!r} at {index} is no {tensor.datatype}"
            return


def _fits(value: Any, datatype: str) -> bool:
    if datatype == "BYTES":
        return isinstance(value, str)
    if datatype == "BOOL" or isinstance(value, bool):
        return datatype == "BOOL" and isinstance(value, bool)
    if not isinstance(value, int | float):
        return False
    if datatype.startswith("FP"):
        return math.isfinite(value) and (datatype != "FP32" or abs(value) < _BEYOND_FP32)
    bits = int(datatype.lstrip("UINT"))
    low, high = (0, 2**bits - 1) if datatype.startswith("U") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return isinstance(value, int) and low <= value <= high
