"""Check warm-up samples. A wrong one is fatal when the model loads, minutes after the pod was scheduled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tritonclient.grpc.model_config_pb2 import DataType, ModelConfig, ModelWarmup


def check(config: ModelConfig) -> Iterator[str]:
    """Yield samples that do not fit the model's inputs and batch size (fatal)."""
    for index, sample in enumerate(config.model_warmup):
        where = f"model_warmup[{index}]"
        if config.max_batch_size > 0 and not 1 <= sample.batch_size <= config.max_batch_size:
            yield (f"{where}.batch_size: {sample.batch_size} is not between 1 and max_batch_size {config.max_batch_size}")
        if config.max_batch_size == 0 and sample.batch_size > 1:
            yield f"{where}.batch_size: {sample.batch_size}, but the model does not batch (max_batch_size 0); leave it out"
        yield from _inputs(where, sample, config)


def _inputs(where: str, sample: ModelWarmup, config: ModelConfig) -> Iterator[str]:
    declared = {tensor.name: tensor for tensor in config.input}
    for name, tensor in declared.items():
        if name and name not in sample.inputs and not tensor.optional:
            yield f"{where}.inputs: {name} is missing; a sample needs every input of the model"
    for name in sorted(sample.inputs):
        given, place = sample.inputs[name], f"{where}.inputs[{name}]"
        if name not in declared:
            yield f"{place}: the model has no such input; it has {', '.join(declared) or 'none'}"
            continue
        tensor = declared[name]
        if given.data_type != tensor.data_type:
            yield f"{place}.data_type: {_type(given.data_type)}, but the input is {_type(tensor.data_type)}"
        yield from _dims(place, list(given.dims), list(tensor.dims), sample.batch_size)
        if given.WhichOneof("input_data_type") is None:
            yield f"{place}: no data; one of zero_data: true, random_data: true, input_data_file"


def _dims(place: str, given: Sequence[int], expected: Sequence[int], batch: int) -> Iterator[str]:
    if len(given) == len(expected) + 1 and _fits(given[1:], expected):
        yield (
            f"{place}.dims: {list(given)} includes the batch; dims are {list(given[1:])}, the batch is batch_size ({batch})"
        )
    elif not _fits(given, expected):
        yield f"{place}.dims: {list(given)} does not fit the input's dims {list(expected)}; every size is at least 1"


def _fits(given: Sequence[int], expected: Sequence[int]) -> bool:
    return len(given) == len(expected) and all(
        size >= 1 and wanted in (-1, size) for size, wanted in zip(given, expected, strict=True)
    )


def _type(value: int) -> str:
    return "missing" if value == DataType.TYPE_INVALID else DataType.Name(value)
