"""Serve ONNX models instead of NVIDIA's backend `onnxruntime`, with onnxruntime from PyPI.

Instances of KIND_CPU run on the CPU. Instances of KIND_GPU run on their GPU if the environment has onnxruntime-gpu instead
of onnxruntime, and are refused otherwise. Triton runs this file as a python-based backend
(https://github.com/triton-inference-server/backend/blob/main/docs/python_based_backends.md), so it imports nothing of this
repository. Its rules for configs follow the source of the real backend
(https://github.com/triton-inference-server/onnxruntime_backend/blob/main/src/onnxruntime.cc), except for NOT_HERE, so a
config that loads here should load there. It does not complete configs: pods run with --disable-auto-complete-config.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import triton_python_backend_utils as triton

STAND_IN = "the twin's stand-in for the onnxruntime backend"

NOT_HERE = {
    "allow_ragged_batch": "inputs of different sizes in one batch (allow_ragged_batch)",
    "batch_input": "tensors that the batcher makes (batch_input)",
    "batch_output": "outputs that the batcher splits (batch_output)",
}
"""Field of a config to the feature that the real backend has and this one refuses."""

_TYPES = {
    "tensor(bool)": "TYPE_BOOL",
    "tensor(uint8)": "TYPE_UINT8",
    "tensor(uint16)": "TYPE_UINT16",
    "tensor(uint32)": "TYPE_UINT32",
    "tensor(uint64)": "TYPE_UINT64",
    "tensor(int8)": "TYPE_INT8",
    "tensor(int16)": "TYPE_INT16",
    "tensor(int32)": "TYPE_INT32",
    "tensor(int64)": "TYPE_INT64",
    "tensor(float16)": "TYPE_FP16",
    "tensor(float)": "TYPE_FP32",
    "tensor(double)": "TYPE_FP64",
    "tensor(string)": "TYPE_STRING",
}
"""Every type of the real backend except BF16, which numpy does not have."""
_CPU, _CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
_CUDA_OPTIONS = {
    "cudnn_conv_algo_search": ("EXHAUSTIVE", "HEURISTIC", "DEFAULT"),
    "arena_extend_strategy": ("kNextPowerOfTwo", "kSameAsRequested"),
}
"""Parameter of a config to the meanings of its numbers."""
_GRAPH_LEVELS = {
    -1: onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    1: onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    2: onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
}


class TritonPythonModel:
    """One instance of a model; Triton calls its methods."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Open the model and check its config against it. Raises TritonModelException."""
        config = json.loads(args["model_config"])
        self._max_batch_size = int(config["max_batch_size"])
        path = Path(args["model_repository"], args["model_version"], config["default_model_filename"] or "model.onnx")
        path = path / "model.onnx" if path.is_dir() else path
        on_gpu, providers = _providers(args, config)
        try:
            self._session = onnxruntime.InferenceSession(path, _options(config), providers=providers)
        except Exception as error:  # its exceptions have no other base
            raise triton.TritonModelException(f"unable to load model '{args['model_name']}', {_one_line(error)}") from None
        # If a CUDA library is missing, onnxruntime only logs that and uses the CPU.
        if on_gpu and _CUDA not in self._session.get_providers():
            raise triton.TritonModelException(
                f"unable to load model '{args['model_name']}', onnxruntime could not use GPU "
                f"{args['model_instance_device_id']}; what it logged before says why"
            )
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        self._inputs = {tensor.name: tensor for tensor in (*inputs, *self._session.get_overridable_initializers())}
        self._outputs = {tensor.name: tensor for tensor in outputs}
        if wrong := next(_wrong(config, len(inputs), self._inputs, self._outputs), None):
            raise triton.TritonModelException(f"unable to load model '{args['model_name']}', {wrong}")
        self._scalars = {o["name"]: o["dims"] for o in config["output"] if not self._outputs[o["name"]].shape}
        self._states = _States(config)
        triton.Logger.log_info(
            f"{args['model_name']}: this is {STAND_IN}: PyPI's onnxruntime {onnxruntime.__version__} on "
            + (f"GPU {args['model_instance_device_id']}" if on_gpu else "the CPU")
        )

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer requests, in one run if the model batches. An error becomes the response to all requests of the run."""
        if self._max_batch_size == 0:
            return [response for request in requests for response in self._run([request])]
        return self._run(requests)

    def _run(self, requests: Sequence[Any]) -> list[Any]:
        try:
            return self._answers(requests)
        except Exception as error:  # its exceptions have no other base
            failed = triton.TritonError(f"onnx runtime error {_one_line(error)}")
            return [triton.InferenceResponse([], failed) for _ in requests]

    def _answers(self, requests: Sequence[Any]) -> list[Any]:
        arrays = [self._states.read(request, _given(request)) for request in requests]
        fed = {name: self._to_model(name, [given[name] for given in arrays]) for name in arrays[0]}
        made = dict(zip(self._outputs, self._session.run(list(self._outputs), fed), strict=True))
        responses, begin = [], 0
        for request, given in zip(requests, arrays, strict=True):
            end = begin + (len(next(iter(given.values()))) if self._max_batch_size else 0)
            own = {name: self._from_model(name, value, begin, end) for name, value in made.items()}
            self._states.write(request, own)
            wanted = [name for name in request.requested_output_names() if name in own]
            responses.append(triton.InferenceResponse([triton.Tensor(name, own[name]) for name in wanted]))
            begin = end
        return responses

    def _to_model(self, name: str, values: list[np.ndarray]) -> np.ndarray:
        if name not in self._inputs:
            raise ValueError(f"Failed to retrieve the ONNX input tensor info from '{name}'.")
        value = np.concatenate(values) if self._max_batch_size else values[0]
        if value.dtype == object:
            value = np.array([text.decode() for text in value.flat], dtype=object).reshape(value.shape)
        return value if self._inputs[name].shape else value.reshape(())

    def _from_model(self, name: str, value: np.ndarray, begin: int, end: int) -> np.ndarray:
        value = np.asarray(value)
        if self._max_batch_size:
            value = value[begin:end]
        elif name in self._scalars:
            value = value.reshape(self._scalars[name])
        if value.dtype.kind in "OU":
            return np.array([str(text).encode() for text in value.flat], dtype=object).reshape(value.shape)
        return value


class _States:
    """The state of each sequence, which the real backend keeps in Triton's core and python-based backends cannot."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        states = config.get("sequence_batching", {}).get("state", [])
        self._outputs = {state["input_name"]: state["output_name"] for state in states}
        self._kept: dict[Any, dict[str, np.ndarray]] = {}

    def read(self, request: Any, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the request's inputs, with the state of its sequence; at the start, the core provides the initial state."""
        if not self._outputs or request.flags() & triton.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START:
            return given
        return given | self._kept.get(request.correlation_id(), {})

    def write(self, request: Any, made: Mapping[str, np.ndarray]) -> None:
        """Keep the state that a run returned, until the sequence ends."""
        if not self._outputs:
            return
        if request.flags() & triton.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END:
            self._kept.pop(request.correlation_id(), None)
        else:
            self._kept[request.correlation_id()] = {into: made[out].copy() for into, out in self._outputs.items()}


def _given(request: Any) -> dict[str, np.ndarray]:
    return {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}


def _providers(args: Mapping[str, str], config: Mapping[str, Any]) -> tuple[bool, list[Any]]:
    """Return whether the instance is on a GPU, and its providers, with the config's options. Raises TritonModelException."""
    if args["model_instance_kind"] != "GPU":
        return False, [_CPU]
    if _CUDA not in onnxruntime.get_available_providers():
        raise triton.TritonModelException(
            f"unable to load model '{args['model_name']}', its instance is on a GPU, and onnxruntime of this environment is "
            "the one for CPUs; install onnxruntime-gpu in its place, or write KIND_CPU"
        )
    # Load them from the packages nvidia-…, which onnxruntime-gpu[cuda,cudnn] installs: the loader does not look there.
    onnxruntime.preload_dlls(directory="")
    options = {"device_id": args["model_instance_device_id"]}
    for name, values in _CUDA_OPTIONS.items():
        chosen = _number(config, name)
        if chosen not in range(len(values)):
            raise triton.TritonModelException(f"unsupported {name} value '{chosen}' is requested")
        options[name] = values[chosen]
    if limit := _number(config, "gpu_mem_limit"):
        options["gpu_mem_limit"] = str(limit)
    return True, [(_CUDA, options), _CPU]


def _options(config: Mapping[str, Any]) -> onnxruntime.SessionOptions:
    """Return the options of the config for the session itself. Raises TritonModelException."""
    options = onnxruntime.SessionOptions()
    level = int(config.get("optimization", {}).get("graph", {}).get("level", 0))
    options.graph_optimization_level = _GRAPH_LEVELS.get(level, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)
    mode = _number(config, "execution_mode")
    if mode not in (0, 1):
        raise triton.TritonModelException(f"Expected values for execution_mode are 0 or 1 but got {mode}")
    modes = onnxruntime.ExecutionMode
    options.execution_mode = modes.ORT_PARALLEL if mode else modes.ORT_SEQUENTIAL
    options.intra_op_num_threads = _number(config, "intra_op_thread_count")
    options.inter_op_num_threads = _number(config, "inter_op_thread_count")
    return options


def _number(config: Mapping[str, Any], name: str) -> int:
    text = config.get("parameters", {}).get(name, {}).get("string_value", "0")
    try:
        return int(text)
    except ValueError:
        raise triton.TritonModelException(f"failed to convert {name} '{text}' to integral number") from None


def _wrong(config: Mapping[str, Any], count: int, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Iterator[str]:
    """Yield why the config does not fit the model, like ValidateInputs and ValidateOutputs of the real backend."""
    for field, what in NOT_HERE.items():
        if config.get(field) or any(tensor.get(field) for tensor in config["input"]):
            yield f"{STAND_IN} has no {what}; the real backend may load it"
    for tensor in (*inputs.values(), *outputs.values()):
        if tensor.type not in _TYPES:
            yield f"'{tensor.name}' is a {tensor.type}, which {STAND_IN} does not serve"
    sequences = config.get("sequence_batching", {})
    controls, states = sequences.get("control_input", []), sequences.get("state", [])
    expected = sum(1 for tensor in config["input"] if not tensor.get("optional")) + len(controls) + len(states)
    if count != expected:
        yield f"configuration expects {expected} inputs, model provides {count}"
    for control in controls:
        if control["name"] not in inputs:
            yield f"configuration specified sequence control '{control['name']}', but model does not provide that input"
    for tensor in config["input"]:
        if tensor.get("optional") and config["max_batch_size"]:
            yield f"optional input '{tensor['name']}' is not supported for models that support batching"
        yield from _wrong_tensor("input", tensor, inputs, config["max_batch_size"], exact=False)
    for tensor in config["output"]:
        yield from _wrong_tensor("output", tensor, outputs, config["max_batch_size"], exact=True)
    for state in states:
        if state["output_name"] not in outputs:
            yield f"unexpected inference output '{state['output_name']}', allowed outputs are: {', '.join(sorted(outputs))}"


def _wrong_tensor(
    kind: str, tensor: Mapping[str, Any], known: Mapping[str, Any], max_batch_size: int, *, exact: bool
) -> Iterator[str]:
    name = tensor["name"]
    if name not in known:
        yield f"unexpected inference {kind} '{name}', allowed {kind}s are: {', '.join(sorted(known))}"
        return
    has = _TYPES[known[name].type]
    if tensor["data_type"] != has:
        yield f"configuration expects datatype {tensor['data_type']} for {kind} '{name}', model provides {has}"
    shape = [size if isinstance(size, int) and size >= 0 else -1 for size in known[name].shape]
    dims = [int(size) for size in (tensor["reshape"]["shape"] if "reshape" in tensor else tensor["dims"])]
    if not shape:
        if max_batch_size or any(size != 1 for size in dims):
            yield f"scalar tensor '{name}' has dims {dims}; they are all 1, and max_batch_size is 0"
        return
    if max_batch_size and shape[0] != -1:
        yield f"tensor '{name}': for the model to support batching the first dimension must be -1; but it is {shape}"
    full = [-1, *dims] if max_batch_size else dims
    if len(full) != len(shape) or any(a != b and (exact or a != -1) for a, b in zip(shape, full, strict=True)):
        yield f"tensor '{name}': the model expects shape {shape}, but the model configuration specifies shape {full}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
