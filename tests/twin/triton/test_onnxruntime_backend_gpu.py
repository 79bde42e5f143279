"""GPU use by the substitute onnxruntime backend: its requests to onnxruntime. No GPU is needed."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import onnxruntime
import pytest

from twin.triton.tritonserver import OWN_BACKENDS

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
ON_GPU = {"model_name": "net", "model_instance_kind": "GPU", "model_instance_device_id": "1"}


class TritonModelException(Exception):
    """Replaces the exception of Triton's own module, which only its server has."""


@pytest.fixture
def providers(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str], dict[str, str]], Any]:
    """Return the backend's choice for an instance (`args`) and its config's parameters."""
    triton = ModuleType("triton_python_backend_utils")
    triton.TritonModelException = TritonModelException  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, triton.__name__, triton)
    spec = importlib.util.spec_from_file_location("onnxruntime_backend_here", OWN_BACKENDS["onnxruntime/model.py"])
    assert spec is not None
    assert spec.loader is not None
    backend = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(backend)

    def choose(args: dict[str, str], parameters: dict[str, str]) -> Any:
        return backend._providers(args, {"parameters": {key: {"string_value": text} for key, text in parameters.items()}})

    return choose


@pytest.fixture
def with_cuda(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Install an onnxruntime with GPU support; return its CUDA library directories."""
    told: list[str] = []
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [CUDA, CPU])
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda directory: told.append(directory))
    return told


def test_an_instance_on_the_cpu_stays_there_with_a_gpu_at_hand(providers: Callable, with_cuda: list[str]) -> None:
    assert providers({**ON_GPU, "model_instance_kind": "CPU"}, {}) == (False, [CPU])
    assert with_cuda == []


def test_an_instance_on_a_gpu_takes_its_own_with_the_defaults_of_the_real_backend(
    providers: Callable, with_cuda: list[str]
) -> None:
    on_gpu, chosen = providers(ON_GPU, {})
    options = {"device_id": "1", "cudnn_conv_algo_search": "EXHAUSTIVE", "arena_extend_strategy": "kNextPowerOfTwo"}
    assert (on_gpu, chosen) == (True, [(CUDA, options), CPU])
    assert with_cuda == [""]


def test_the_options_of_a_config_are_those_of_the_real_backend(providers: Callable, with_cuda: list[str]) -> None:
    given = {"cudnn_conv_algo_search": "1", "arena_extend_strategy": "1", "gpu_mem_limit": "1073741824"}
    assert providers(ON_GPU, given)[1][0][1] == {
        "device_id": "1",
        "cudnn_conv_algo_search": "HEURISTIC",
        "arena_extend_strategy": "kSameAsRequested",
        "gpu_mem_limit": "1073741824",
    }


def test_an_option_that_the_real_backend_does_not_know_is_refused(providers: Callable, with_cuda: list[str]) -> None:
    with pytest.raises(TritonModelException, match=r"^unsupported cudnn_conv_algo_search value '3' is requested$"):
        providers(ON_GPU, {"cudnn_conv_algo_search": "3"})


def test_a_gpu_is_refused_by_the_onnxruntime_for_cpus(providers: Callable) -> None:
    with pytest.raises(TritonModelException, match=r"install onnxruntime-gpu in its place, or write KIND_CPU$"):
        providers(ON_GPU, {})
