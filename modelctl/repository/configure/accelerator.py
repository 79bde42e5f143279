"""Configure TensorRT as the accelerator of NVIDIA's onnxruntime backend, which builds an engine when a pod starts.

For the keys see
https://github.com/triton-inference-server/onnxruntime_backend/blob/013d274/README.md#parameter-mapping-between-onnx-runtime-and-triton-onnxruntime-backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tritonclient.grpc.model_config_pb2 import ModelConfig, ModelInput, ModelInstanceGroup

from modelctl.repository.backends import backend_of

_PROFILES = ("trt_profile_min_shapes", "trt_profile_opt_shapes", "trt_profile_max_shapes")


def tensorrt_of(config: ModelConfig) -> Any:
    """Return the TensorRT accelerator; None without one."""
    accelerators = config.optimization.execution_accelerators.gpu_execution_accelerator
    return next((accelerator for accelerator in accelerators if accelerator.name == "tensorrt"), None)


def builds_engines(config: ModelConfig) -> bool:
    """Return whether ONNX Runtime builds TensorRT engines when an instance of the model starts."""
    on_gpu = any(group.kind == ModelInstanceGroup.KIND_GPU for group in config.instance_group)
    return on_gpu and backend_of(config) == "onnxruntime" and tensorrt_of(config) is not None


def set_profile(config: ModelConfig) -> None:
    """Set one profile for batch sizes from 1 to the largest, optimized for the largest.

    Without a profile, ONNX Runtime builds another engine for each new size. A profile that the author wrote is kept. A model
    with further variable sizes gets no profile, because requests outside it would fail.
    """
    tensorrt = tensorrt_of(config)
    if config.max_batch_size < 1 or any(name in tensorrt.parameters for name in _PROFILES):
        return
    if any(size < 1 for tensor in config.input for size in _dims(tensor)):
        return
    for name, batch in zip(_PROFILES, (1, config.max_batch_size, config.max_batch_size), strict=True):
        tensorrt.parameters[name] = ",".join(_shape(tensor, batch) for tensor in config.input)


def _shape(tensor: ModelInput, batch: int) -> str:
    return f"{tensor.name}:{'x'.join(map(str, (batch, *_dims(tensor))))}"


def _dims(tensor: ModelInput) -> Sequence[int]:
    return list(tensor.reshape.shape) if tensor.HasField("reshape") else list(tensor.dims)
