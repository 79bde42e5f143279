"""model_warmup of a generated config: one sample per batch size that matters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tritonclient.grpc.model_config_pb2 import ModelConfig, ModelInput, ModelInstanceGroup, ModelWarmup

from modelctl.repository.configure import derive


def fill(config: ModelConfig, wanted: Sequence[int] | None) -> Iterator[str]:
    """Replace the samples of `config`, whose scheduling is settled, by one per size; yield what stands in the way.

    The samples that its author wrote say the data, and the sizes of variable dims: Triton repeats a sample's data for
    each request of the batch. An input without one is zeros of its own shape, without the batch
    (docs/facts/triton-configuration.md#warm-up). `wanted` None: those of `derive.warmup_batch_sizes`, of a model that can
    be warmed up.
    """
    samples = _samples(config)
    del config.model_warmup[:]
    obstacles = list(_obstacles(config, samples))
    on_gpu = any(group.kind == ModelInstanceGroup.KIND_GPU for group in config.instance_group)
    sizes = sorted(set(wanted)) if wanted is not None else derive.warmup_batch_sizes(config.max_batch_size, on_gpu=on_gpu)
    if obstacles and sizes:
        # Not every model can be warmed up, and nobody asked for it.
        if wanted is not None:
            yield from obstacles
        return
    largest = config.max_batch_size
    limit = f"the largest batch is {largest}" if largest else "the model does not batch (max_batch_size 0)"
    for size in sizes:
        if size > max(largest, 1):
            yield f"warmup: a batch of {size}, but {limit}"
    for tensor in config.input:
        if sizes and not tensor.optional and tensor.name not in samples and _is_variable(tensor):
            yield (
                f"warmup: input {tensor.name} has variable dims {list(tensor.dims)}, so no sample can be made of them; give "
                "one in model_warmup of config.pbtxt (its dims serve every batch size), or write warmup: []"
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


def _samples(config: ModelConfig) -> dict[str, ModelWarmup.Input]:
    """Return the first sample of each input that the author wrote."""
    found: dict[str, ModelWarmup.Input] = {}
    for warmup in reversed(config.model_warmup):
        for name, sample in warmup.inputs.items():
            found[name] = ModelWarmup.Input()
            found[name].CopyFrom(sample)
    return found


def _obstacles(config: ModelConfig, samples: Mapping[str, ModelWarmup.Input]) -> Iterator[str]:
    """Yield why a sample would keep the model from loading; each was seen on server 2.51."""
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
