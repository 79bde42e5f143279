"""Choose the inputs of the requests of a load."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from tritonclient.grpc import InferInput
from tritonclient.grpc.model_config_pb2 import DataType, ModelConfig, ModelInput
from tritonclient.utils import np_to_triton_dtype, triton_to_np_dtype

from modelctl.repository.golden import FILE as GOLDEN_FILE
from modelctl.repository.golden import Golden, GoldenError, Request, flat
from modelctl.repository.model import Model
from spec import reading
from spec.failure import Failure

Values = npt.NDArray[np.generic]
_Kind = TypeVar("_Kind", bound=Request)


class NoRequest(Failure):
    """No request for a model is known; the text gives the remedy."""


_FLOATS = frozenset({"FP16", "FP32", "FP64", "BF16"})


def request_of(model: Model, seed: int, file: Path | None = None) -> list[InferInput]:
    """Return the inputs of a request, a batch of one: from `file`, from golden.json, or random ones.

    For a shape that the config leaves open, the dims of the sample in its model_warmup are used. Raises NoRequest if there
    is no golden.json and a shape or a type leaves the inputs open.
    """
    request = _read(Request, file) if file is not None else _golden(model)
    values = values_of(model.config, request, seed)
    return [tensor_of(name, value[:1] if model.config.max_batch_size else value) for name, value in values.items()]


def values_of(config: ModelConfig, request: Request | None, seed: int) -> dict[str, Values]:
    """Return the inputs of a request by name, random ones if `request` has none. Raises NoRequest like `request_of`."""
    source = np.random.default_rng(seed)
    values = {}
    for tensor in config.input:
        if request is not None and tensor.name in request.inputs:
            known = request.inputs[tensor.name]
            dtype = triton_to_np_dtype(known.datatype)
            values[tensor.name] = np.array(list(flat(known.data)), dtype=dtype).reshape(known.shape)
        elif not tensor.optional:
            values[tensor.name] = _random(tensor, config, source)
    return values


def _random(tensor: ModelInput, config: ModelConfig, source: np.random.Generator) -> Values:
    where = f"{config.name}: input {tensor.name}"
    dims = _dims(tensor, config)
    if any(size < 0 for size in dims):
        raise NoRequest(
            f"{where} has a variable shape {list(dims)}; {_give(config)} with a typical one, or a sample of typical dims "
            "into model_warmup of its config.pbtxt"
        )
    datatype = DataType.Name(tensor.data_type).removeprefix("TYPE_")
    shape = [1, *dims] if config.max_batch_size else list(dims)
    if datatype == "STRING":
        raise NoRequest(f"{where} is text; {_give(config)} with a typical one")
    if datatype == "BOOL":
        return source.random(shape) < 0.5
    dtype = triton_to_np_dtype(datatype)
    if dtype is None:
        raise NoRequest(f"{where} has the type {datatype}, of which no values can be made")
    if datatype in _FLOATS:
        return source.random(shape).astype(dtype)
    # Small numbers, because an index into a vocabulary must exist.
    return source.integers(0, 2, size=math.prod(shape)).reshape(shape).astype(dtype)


def _give(config: ModelConfig) -> str:
    # Decoupled models and models with sequences must not have a golden.json.
    if config.model_transaction_policy.decoupled or config.HasField("sequence_batching"):
        return "give a file (--request)"
    return f"put a {GOLDEN_FILE} into its version, or give a file (--request),"


def _dims(tensor: ModelInput, config: ModelConfig) -> Sequence[int]:
    samples = (warmup.inputs[tensor.name] for warmup in config.model_warmup if tensor.name in warmup.inputs)
    return next((list(sample.dims) for sample in samples if sample.dims), list(tensor.dims))


def tensor_of(name: str, value: Values) -> InferInput:
    """Return an input with these values."""
    request = InferInput(name, list(value.shape), np_to_triton_dtype(value.dtype))
    request.set_data_from_numpy(value)
    return request


def _golden(model: Model) -> Golden | None:
    path = model.directory / str(model.version) / GOLDEN_FILE
    return _read(Golden, path) if path.is_file() else None


def _read(kind: type[_Kind], path: Path) -> _Kind:
    try:
        return kind.parse(str(path), reading.text_file(path))
    except GoldenError as error:
        raise NoRequest(str(error)) from None
