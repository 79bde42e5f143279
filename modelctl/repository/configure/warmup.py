"""Generate model_warmup of a config: one sample per relevant batch size."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from tritonclient.grpc.model_config_pb2 import DataType, ModelConfig, ModelInput, ModelInstanceGroup, ModelWarmup
from tritonclient.utils import serialize_byte_tensor, triton_to_np_dtype

from modelctl.repository.configure import accelerator, derive
from modelctl.repository.golden import Request, Tensor, flat

FOLDER = "warmup"
"""The directory next to config.pbtxt in which the server looks for the file of a sample."""
FROM_GOLDEN = "golden-"
"""Prefix of files with data from golden.json."""


def fill(config: ModelConfig, required: Sequence[int] | None, golden: Request | None) -> Iterator[str]:
    """Replace the samples of `config` by one per size; yield the obstacles.

    The scheduling and accelerator of `config` are final. The data of an input are the author's sample, or the first request
    of `golden`, or zeros of its own shape, without the batch. The server repeats them for each request of the batch
    (docs/facts/triton-configuration.md#warm-up). With `required` None, derived sizes are used if the model has data for each
    input. An empty text or a guessed length could keep it from loading.
    """
    samples = _samples(config, golden)
    del config.model_warmup[:]
    obstacles = list(_obstacles(config, samples))
    sizes = sorted(set(required)) if required is not None else _derived_sizes(config)
    if not sizes:
        return
    if required is None and (obstacles or inputs_without_data(config, samples)):
        return
    if obstacles:
        yield from obstacles
        return
    largest = config.max_batch_size
    limit = f"the largest batch is {largest}" if largest else "the model does not batch (max_batch_size 0)"
    for size in sizes:
        if size > max(largest, 1):
            yield f"warmup: a batch of {size}, but {limit}"
    for tensor in config.input:
        if not tensor.optional and tensor.name not in samples and _is_variable(tensor):
            yield (
                f"warmup: input {tensor.name} has variable dims {list(tensor.dims)}, so no sample can be made of them; add "
                "a golden.json to the version, or a sample to model_warmup of config.pbtxt (its dims serve every batch "
                "size), or write warmup: []"
            )
    for size in sizes:
        warmup = config.model_warmup.add(name=f"batch of {size}", batch_size=size, count=1)
        for tensor in config.input:
            if tensor.name in samples:
                warmup.inputs[tensor.name].CopyFrom(samples[tensor.name])
            elif not tensor.optional:
                warmup.inputs[tensor.name].MergeFrom(
                    ModelWarmup.Input(data_type=tensor.data_type, dims=tensor.dims, zero_data=True)
                )


def without_data(config: ModelConfig, golden: Request | None) -> list[str]:
    """Return the inputs without data from the author's samples, `golden` or zeros."""
    return inputs_without_data(config, _samples(config, golden))


def inputs_without_data(config: ModelConfig, samples: Mapping[str, ModelWarmup.Input]) -> list[str]:
    """Return the required inputs without a sample that are text or have variable sizes."""
    return [
        tensor.name
        for tensor in config.input
        if not tensor.optional
        and tensor.name not in samples
        and (tensor.data_type == DataType.TYPE_STRING or _is_variable(tensor))
    ]


def data_files(config: ModelConfig, golden: Request | None) -> dict[str, bytes]:
    """Return the data of `golden` that the samples of `config` refer to, by file name."""
    named = {sample.input_data_file for warmup in config.model_warmup for sample in warmup.inputs.values()}
    tensors = golden.inputs.values() if golden is not None else ()
    contents = (_first_request(tensor, batched=config.max_batch_size > 0)[1] for tensor in tensors)
    return {name: content for content in contents if (name := _file_name(content)) in named}


def _derived_sizes(config: ModelConfig) -> list[int]:
    if accelerator.builds_engines(config):
        # One engine serves all sizes; the first run builds it.
        return sorted({1, max(config.max_batch_size, 1)}, reverse=True)
    on_gpu = any(group.kind == ModelInstanceGroup.KIND_GPU for group in config.instance_group)
    return derive.warmup_batch_sizes(config.max_batch_size, on_gpu=on_gpu)


def _samples(config: ModelConfig, golden: Request | None) -> dict[str, ModelWarmup.Input]:
    """Return the author's first sample of each input, and `golden`'s sample for inputs without one."""
    samples: dict[str, ModelWarmup.Input] = {}
    for tensor in config.input:
        if golden is not None and tensor.name in golden.inputs:
            dims, content = _first_request(golden.inputs[tensor.name], batched=config.max_batch_size > 0)
            if all(dims):
                file = _file_name(content)
                samples[tensor.name] = ModelWarmup.Input(data_type=tensor.data_type, dims=dims, input_data_file=file)
    for warmup in reversed(config.model_warmup):
        for name, sample in warmup.inputs.items():
            samples[name] = ModelWarmup.Input()
            samples[name].CopyFrom(sample)
    return samples


def _first_request(tensor: Tensor, *, batched: bool) -> tuple[list[int], bytes]:
    """Return the dims and the content of the first request of a batch."""
    text = tensor.datatype == "BYTES"
    values = [str(value).encode() for value in flat(tensor.data)] if text else list(flat(tensor.data))
    array = np.array(values, dtype=triton_to_np_dtype(tensor.datatype)).reshape(tensor.shape)
    first = array[0] if batched else array
    content = serialize_byte_tensor(np.atleast_1d(first)).item() if text else first.tobytes()
    return list(first.shape), content


def _file_name(content: bytes) -> str:
    """Return the name of a sample's file, a hash of its data. So a name always has the same content in all versions."""
    return f"{FROM_GOLDEN}{hashlib.sha256(content).hexdigest()[:12]}"


def _obstacles(config: ModelConfig, samples: Mapping[str, ModelWarmup.Input]) -> Iterator[str]:
    """Yield reasons why a sample would keep the model from loading. Each was seen on server 2.51."""
    if config.HasField("sequence_batching"):
        yield (
            "warmup: a warm-up request passes the sequence batcher by, so the model gets no control inputs and fails; "
            "write warmup: [] or leave it out"
        )
    missing = [tensor.name for tensor in config.input if not tensor.optional and tensor.name not in samples]
    if config.model_transaction_policy.decoupled and missing:
        yield (
            f"warmup: a decoupled model that answers its warm-up with an error crashes the server, and zeros as "
            f"{', '.join(missing)} may well be one; give a sample in model_warmup of config.pbtxt, or write warmup: []"
        )


def _is_variable(tensor: ModelInput) -> bool:
    return any(size < 1 for size in tensor.dims)
