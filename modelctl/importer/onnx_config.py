"""Make the config of an ONNX model from its file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tritonclient.grpc.model_config_pb2 import ModelConfig, ModelInstanceGroup, ModelQueuePolicy

from modelctl.repository.onnx_file import OnnxModel, Tensor
from modelctl.repository.rules.onnx import TYPES

BATCH = 8
"""The batch size of a model that can batch, until it is tuned."""
_QUEUE = 64
_WAIT_MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class Made:
    """A config, and the outputs with sizes that the file leaves open but the runtime may infer."""

    config: ModelConfig
    open_outputs: tuple[str, ...]


class CannotServe(ValueError):
    """No config can serve a model; `reasons` are sentences with the cause and the remedy."""

    def __init__(self, reasons: Sequence[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__("; ".join(reasons))


def config_of(model: OnnxModel, max_batch_size: int | None = None) -> Made:
    """Return the config that serves the model. Raises CannotServe.

    `max_batch_size` None: 8 if the model can batch, else 0. It can if the first size of each input and output is variable,
    which is also the rule with which NVIDIA's backend completes a config. Inputs with a default value are left out. The
    queue has a bound, as for all models here.
    """
    tensors = (*model.required, *model.outputs)
    reasons = [
        f"{tensor.name} has no shape in the file; export it with one (onnx.shape_inference finds most)"
        for tensor in tensors
        if tensor.shape is None
    ]
    fixed = [tensor for tensor in tensors if tensor.shape is not None and tensor.shape[:1] != (None,)]
    if max_batch_size and fixed:
        reasons.append(
            f"no batch of {max_batch_size}: the first size of {_names(fixed)} does not vary; leave out the batch size"
        )
    if reasons:
        raise CannotServe(reasons)
    batch = (0 if fixed else BATCH) if max_batch_size is None else max_batch_size
    config = ModelConfig(backend="onnxruntime", max_batch_size=batch)
    for of, declared in ((model.required, config.input), (model.outputs, config.output)):
        for tensor in of:
            sizes = _sizes(tensor, batch)
            one = declared.add(name=tensor.name, data_type=TYPES[tensor.element], dims=sizes or [1])
            if not sizes and batch:
                one.reshape.SetInParent()  # one number for each request of a batch, as NVIDIA's backend writes it
    queue = config.dynamic_batching.default_queue_policy
    queue.timeout_action = ModelQueuePolicy.REJECT
    queue.default_timeout_microseconds, queue.max_queue_size = _WAIT_MICROSECONDS, _QUEUE
    config.instance_group.add(kind=ModelInstanceGroup.KIND_CPU, count=1)
    return Made(config, tuple(tensor.name for tensor in model.outputs if -1 in _sizes(tensor, batch)))


def _sizes(tensor: Tensor, batch: int) -> list[int]:
    sizes = (tensor.shape or ())[1 if batch else 0 :]
    return [-1 if size is None else size for size in sizes]


def _names(tensors: Sequence[Tensor]) -> str:
    return ", ".join(tensor.name for tensor in tensors)
