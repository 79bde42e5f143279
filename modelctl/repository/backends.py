"""The backends that a config may name, with the model files that they load.

Besides NVIDIA's backends, a model's author may bring others. Triton looks for `libtriton_<name>.so` in the version
directory, in the model's directory, and in the image (`GetBackendLibrarySearchPaths`). It looks for a Python backend only in
the image: https://github.com/triton-inference-server/core/blob/73aad7c/src/backend_model.cc#L321-L331. The release contains
the first two; release.yaml names the backends in the image.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from tritonclient.grpc.model_config_pb2 import ModelConfig, ModelInstanceGroup

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
"""Backend to its default model file name; None if it has no fixed one."""

PLATFORM_BACKENDS: Mapping[str, str] = {
    "libtorch": "pytorch",
    "onnxruntime_onnx": "onnxruntime",
    "pytorch_libtorch": "pytorch",
    "tensorrt_plan": "tensorrt",
    "torch_aoti": "pytorch",
}
"""The older `platform` spelling of a backend. `ensemble` is a platform without a backend.

Source: https://github.com/triton-inference-server/core/blob/73aad7c/src/constants.h#L39-L69.
"""

PLATFORM_FILES: Mapping[str, str] = {"torch_aoti": "model.pt2"}
"""The model file of a platform, if it differs from its backend's."""

_BY_MODEL_FILE = ("tensorrt", "onnxruntime", "openvino", "pytorch", "python")
"""The backends that the server detects by their model file, in this order."""

ENGINES = frozenset({"tensorrtllm", "vllm"})
"""Backends of language models.

They accept all requests at once, and batch, queue and place them by themselves. So Triton's scheduler has no queue to bound,
and their instance settings are kept (docs/language-models.md).
"""

_LIBRARY = re.compile(r"libtriton_(.+)\.so")

# docs/facts/triton-configuration.md#tensorflow
_NO_TENSORFLOW = 'Triton has no TensorFlow backend since 25.03; convert the model to ONNX and write backend: "onnxruntime"'


def is_ensemble(config: ModelConfig) -> bool:
    return config.platform == "ensemble" or config.HasField("ensemble_scheduling")


def backend_of(config: ModelConfig) -> str | None:
    """Return the backend that loads the model. None for an ensemble, or if the config names none."""
    return config.backend or PLATFORM_BACKENDS.get(config.platform)


def places_itself(config: ModelConfig) -> bool:
    """Return whether the model, or its backend, chooses the GPUs of a pod by itself."""
    kinds = {group.kind for group in config.instance_group}
    return ModelInstanceGroup.KIND_MODEL in kinds or backend_of(config) in ENGINES


def runs_tensorrt_llm(config: ModelConfig) -> bool:
    """Return whether the model is a TensorRT-LLM engine, by its backend or by NVIDIA's Python template.

    https://github.com/triton-inference-server/tensorrtllm_backend/blob/0b9d7d5/docs/model_config.md#tensorrt_llm-model
    """
    backend = backend_of(config)
    return backend == "tensorrtllm" or (backend == "python" and "gpt_model_type" in config.parameters)


def model_file_of(config: ModelConfig) -> str | None:
    """Return the model file that the config names or its backend loads by default. None if there is no fixed one."""
    of_platform = PLATFORM_FILES.get(config.platform) or DEFAULT_MODEL_FILES.get(backend_of(config) or "")
    return config.default_model_filename or of_platform


def by_model_file(config: ModelConfig, files: Collection[str]) -> str | None:
    """Return the backend that the server detects by the model file, one of `files`. None if the config names one.

    `AutoCompleteBackendFields` does so even with --disable-auto-complete-config:
    https://github.com/triton-inference-server/core/blob/73aad7c/src/model_config_utils.cc#L1050-L1285
    """
    if config.backend or config.platform or is_ensemble(config):
        return None
    names = [config.default_model_filename] if config.default_model_filename else files
    return next((backend for backend in _BY_MODEL_FILE if DEFAULT_MODEL_FILES[backend] in names), None)


def in_release(files: Iterable[Path]) -> frozenset[str]:
    """Return the backends whose libraries are in a model's directory or in its version directories.

    `files` are relative to the model's directory.
    """
    found = (_LIBRARY.fullmatch(path.name) for path in files if len(path.parts) <= 2)
    return frozenset(match[1] for match in found if match)


def check(config: ModelConfig, own: Collection[str] = ()) -> list[str]:
    """Return the mistakes in `backend` and `platform`, as sentences that begin with the field.

    `own`: backends in the model's release or in the image that are not NVIDIA's.
    """
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
    if backend and backend not in DEFAULT_MODEL_FILES and backend not in own:
        messages.append(
            f'backend: there is no "{backend}"{_suggestion(backend)}; known: {_known(DEFAULT_MODEL_FILES)}; one of your own '
            f"is the file libtriton_{backend}.so of the model, or in the image and named in release.yaml "
            f"(backends: [{backend}])"
        )
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
