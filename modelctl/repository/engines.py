"""Complete the configs of the vLLM backend, whose own examples lack required fields.

Pods run with --disable-auto-complete-config, so the backend's `auto_complete_config` never runs. It would add the tensors
and the transaction policy that the backend requires to load:
https://github.com/triton-inference-server/vllm_backend/blob/8de0c14/src/model.py#L47-L155. The release adds the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from tritonclient.grpc.model_config_pb2 import DataType, ModelConfig, ModelInput, ModelOutput

from modelctl.repository.backends import backend_of

_REQUIRED_INPUT = ("text_input", DataType.TYPE_STRING, 1)
_OPTIONAL_INPUTS = (
    ("image", DataType.TYPE_STRING, -1),
    ("stream", DataType.TYPE_BOOL, 1),
    ("sampling_parameters", DataType.TYPE_STRING, 1),
    ("exclude_input_in_output", DataType.TYPE_BOOL, 1),
    ("return_finish_reason", DataType.TYPE_BOOL, 1),
    ("return_cumulative_logprob", DataType.TYPE_BOOL, 1),
    ("return_logprobs", DataType.TYPE_BOOL, 1),
    ("return_num_input_tokens", DataType.TYPE_BOOL, 1),
    ("return_num_output_tokens", DataType.TYPE_BOOL, 1),
    ("embedding_request", DataType.TYPE_STRING, 1),
)
_OUTPUTS = (
    ("text_output", DataType.TYPE_STRING, -1),
    ("finish_reason", DataType.TYPE_STRING, -1),
    ("cumulative_logprob", DataType.TYPE_FP32, -1),
    ("logprobs", DataType.TYPE_STRING, -1),
    ("num_input_tokens", DataType.TYPE_UINT32, 1),
    ("num_output_tokens", DataType.TYPE_UINT32, -1),
)


def additions(config: ModelConfig) -> ModelConfig:
    """Return the missing fields of a vLLM config; an empty config for another backend."""
    added = ModelConfig()
    if backend_of(config) != "vllm":
        return added
    inputs = {tensor.name for tensor in config.input}
    added.input.extend(tensor for tensor in _inputs() if tensor.name not in inputs)
    outputs = {tensor.name for tensor in config.output}
    added.output.extend(
        ModelOutput(name=name, data_type=kind, dims=[size]) for name, kind, size in _OUTPUTS if name not in outputs
    )
    if not config.HasField("model_transaction_policy"):
        added.model_transaction_policy.decoupled = True
    return added


def _inputs() -> Iterator[ModelInput]:
    name, kind, size = _REQUIRED_INPUT
    yield ModelInput(name=name, data_type=kind, dims=[size])
    for name, kind, size in _OPTIONAL_INPUTS:
        yield ModelInput(name=name, data_type=kind, dims=[size], optional=True)
