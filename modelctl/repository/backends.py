"""The backends that a config may name, and the model file that each looks for in a version directory."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from tritonclient.grpc.model_config_pb2 import ModelConfig

DEFAULT_MODEL_FILES: Mapping[str, str | None] = {
    "dali": "model.dali",
    "fil": None,  # depends on its parameter model_type
    "onnxruntime": "model.onnx",
    "openvino": "model.xml",
    "python": "model.py",
    "pytorch": "model.pt",
    "tensorrt": "model.plan",
    "tensorrtllm": None,  # an engine directory named in its parameters
    "vllm": "model.json",
}
"""Backend to its default model file name; None where the backend has no fixed one."""

PLATFORM_BACKENDS: Mapping[str, str] = {
    "onnxruntime_onnx": "onnxruntime",
    "pytorch_libtorch": "pytorch",
    "tensorrt_plan": "tensorrt",
}
"""The older `platform` spelling of a backend. `ensemble` is a platform without a backend."""

# docs/facts/triton-configuration.md#tensorflow
_NO_TENSORFLOW = 'Triton has no TensorFlow backend since 25.03; convert the model to ONNX and write backend: "onnxruntime"'


def is_ensemble(config: ModelConfig) -> bool:
    return config.platform == "ensemble" or config.HasField("ensemble_scheduling")


def backend_of(config: ModelConfig) -> str | None:
    """Return the backend that will load the model, None for an ensemble or when the config names none that
    exists.
    """
    name = config.backend or PLATFORM_BACKENDS.get(config.platform, "")
    return name if name in DEFAULT_MODEL_FILES else None


def model_file_of(config: ModelConfig) -> str | None:
    """Return the model file that the config names or its backend looks for; None where there is no fixed one."""
    backend = backend_of(config)
    return config.default_model_filename or (DEFAULT_MODEL_FILES[backend] if backend else None)


def check(config: ModelConfig) -> list[str]:
    """Return what is wrong with `backend` and `platform`, as sentences that begin with the field."""
    backend, platform = config.backend, config.platform
    if is_ensemble(config):
        messages = []
        if backend:
            messages.append(f'backend: "{backend}" on an ensemble; an ensemble has platform: "ensemble" and no backend')
        if platform != "ensemble":
            messages.append('platform: a model with ensemble_scheduling needs platform: "ensemble"')
        if not config.HasField("ensemble_scheduling"):
            messages.append('ensemble_scheduling: missing; platform: "ensemble" needs its steps')
        return messages
    if backend == "tensorflow":
        return [f"backend: {_NO_TENSORFLOW}"]
    if platform.startswith("tensorflow"):
        return [f"platform: {_NO_TENSORFLOW}"]
    if not backend and not platform:
        return [f'backend: missing; one of {_known(DEFAULT_MODEL_FILES)}, or platform: "ensemble"']
    messages = []
    if backend and backend not in DEFAULT_MODEL_FILES:
        messages.append(f'backend: there is no "{backend}"{_suggestion(backend)}; known: {_known(DEFAULT_MODEL_FILES)}')
    if platform and platform not in PLATFORM_BACKENDS:
        known = _known([*PLATFORM_BACKENDS, "ensemble"])
        messages.append(f'platform: there is no "{platform}"; known: {known}')
    elif backend and platform and PLATFORM_BACKENDS[platform] != backend:
        messages.append(f'platform: "{platform}" contradicts backend: "{backend}"; leave platform out')
    return messages


def _known(names: Mapping[str, object] | list[str]) -> str:
    return ", ".join(sorted(names))


def _suggestion(name: str) -> str:
    aliases = {
        "trt": "tensorrt",
        "onnx": "onnxruntime",
        "torch": "pytorch",
        "libtorch": "pytorch",
        "py": "python",
    }
    close = [aliases[name]] if name in aliases else difflib.get_close_matches(name, DEFAULT_MODEL_FILES, n=1)
    return f" (did you mean {close[0]}?)" if close else ""
