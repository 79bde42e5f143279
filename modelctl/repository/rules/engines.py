"""Check models of language model backends: vLLM's model.json, and the templates of TensorRT-LLM."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, TypeGuard

from tritonclient.grpc.model_config_pb2 import ModelConfig, ModelInstanceGroup

from modelctl.repository.backends import backend_of, model_file_of, runs_tensorrt_llm
from modelctl.repository.problems import Problem
from modelctl.repository.rules.files import FETCHED_RELEASE, served_path_problem
from spec.settings.language_model import LanguageModel

_LARGEST_BYTES = 1024**2
_ON_A_HUB = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
_LORA_FILE = "multi_lora.json"
_PLACE = re.compile(r"\$\{(\w+)\}")
_STRING_OR_COMMENT = re.compile(r"""#[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""")
_MANDATORY = {"tensorrtllm": ("gpt_model_path", "gpt_model_type"), "python": ("tokenizer_dir",)}
"""Parameters that a model requires to start. Other unfilled parameters of the template count as missing.

See https://github.com/triton-inference-server/tensorrtllm_backend/blob/0b9d7d5/docs/model_config.md#model-parameters.
"""
_FILL = "fill it, as TensorRT-LLM's fill_template.py does"


def unfilled(path: Path, text: str) -> list[Problem]:
    """Return the unfilled places of a template, `${name}`, outside strings and comments. With one, the text is no config."""
    blank = _STRING_OR_COMMENT.sub(lambda match: " " * len(match[0]), text)
    problems = []
    for place in _PLACE.finditer(blank):
        line = blank.count("\n", 0, place.start()) + 1
        column = place.start() - blank.rfind("\n", 0, place.start())
        problems.append(Problem(path, f"{place[0]} is a place of a template that is not filled; {_FILL}", line, column))
    return problems


def check(config: ModelConfig) -> Iterator[str]:
    """Yield unfilled places of a template in values that the model requires to start."""
    for field in ("backend", "name", "platform"):
        if _PLACE.search(value := getattr(config, field)):
            yield f"{field}: {value} is a place of a template that is not filled; {_FILL}"
    backend = backend_of(config)
    for key in _MANDATORY.get("tensorrtllm" if runs_tensorrt_llm(config) else backend or "", ()):
        # A missing key must not be read, because reading would add an empty one to the config.
        value = config.parameters[key].string_value if key in config.parameters else ""
        if _PLACE.search(value):
            yield f"parameters[{key}]: {value} is a place of a template that is not filled; {_FILL}"
        elif runs_tensorrt_llm(config) and not value:
            yield f"parameters[{key}]: missing; an engine of TensorRT-LLM does not start without it"
    if backend == "vllm" and not config.model_transaction_policy.decoupled:
        yield "model_transaction_policy: the vllm backend loads decoupled models alone; write decoupled: true"
    if backend == "vllm" and config.max_batch_size:
        yield f"max_batch_size: {config.max_batch_size}, but vLLM makes the batches; leave it out"


def check_vllm(config: ModelConfig, directory: Path, version: int) -> Iterator[Problem]:
    """Yield the mistakes in the arguments of vLLM's engine in one version of a model.

    Other rules check that the file exists and is JSON.
    """
    folder = directory / str(version)
    path = _arguments_file(config, folder)
    arguments = _arguments(path)
    if arguments is None:
        return
    if not isinstance(arguments, dict):
        yield Problem(path, 'not the arguments of an engine; write {"model": "<name or directory>", …}')
        return
    if message := _model_problem(arguments.get("model"), folder):
        yield Problem(path, f"model: {message}")
    sizes = _splits(arguments)
    wrong = {key: size for key, size in sizes.items() if not _is_count(size)}
    for key, size in wrong.items():
        yield Problem(path, f"{key}: {size!r} is no number of GPUs; a whole number from 1")
    gpus = 1 if wrong else math.prod(sizes.values())
    if gpus > 1 and any(group.kind == ModelInstanceGroup.KIND_GPU for group in config.instance_group):
        yield Problem(path, f"{gpus} GPUs, and KIND_GPU in config.pbtxt is for one; write KIND_MODEL there")
    share = arguments.get("gpu_memory_utilization", 0.9)
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        yield Problem(path, f"gpu_memory_utilization: {share!r} is no share of a GPU's memory; more than 0, up to 1")
    if str(arguments.get("enable_lora", False)).lower() == "true" and not (folder / _LORA_FILE).is_file():
        yield Problem(
            path, f"enable_lora: there is no {version}/{_LORA_FILE}; it names the adapters, or leave enable_lora out"
        )


def against_wants(config: ModelConfig, directory: Path, version: int, wants: LanguageModel) -> Iterator[str]:
    """Yield the differences between vLLM's arguments and a stack's settings, as sentences that begin with the key."""
    if backend_of(config) != "vllm":
        return
    path = _arguments_file(config, directory / str(version))
    arguments = _arguments(path)
    if not isinstance(arguments, dict):
        return
    place = f"{version}/{path.name}"
    sizes = _splits(arguments).values()
    if all(map(_is_count, sizes)) and math.prod(sizes) != wants.gpus:
        yield f"llm.gpus: {wants.gpus}, but {place} splits the model over {math.prod(sizes)}; give the same"
    for key, given, path_of in (
        ("max_model_len", wants.context_tokens, "contextTokens"),
        ("max_num_seqs", wants.concurrent_streams, "concurrentStreams"),
    ):
        most = arguments.get(key)
        if _is_count(most) and most < given:
            yield f"llm.{path_of}: {given} are more than {key} {most} of {place}; give up to {most}, or raise it there"
    if arguments.get("disable_log_stats"):
        yield f"llm: {place} has disable_log_stats, and the stack scales on what vLLM exports; leave it out there"


def names_the_release(config: ModelConfig, directory: Path, versions: Iterable[int]) -> bool:
    """Return whether a model refers to files of the release by their path on pods. See `FETCHED_RELEASE`."""
    named = [parameter.string_value for parameter in config.parameters.values()]
    if backend_of(config) == "vllm":
        found = (_arguments(_arguments_file(config, directory / str(version))) for version in versions)
        named += [str(arguments.get("model")) for arguments in found if isinstance(arguments, dict)]
    return any(name.startswith(f"{FETCHED_RELEASE}/") for name in named)


def _arguments_file(config: ModelConfig, folder: Path) -> Path:
    return folder / str(model_file_of(config))


def _arguments(path: Path) -> Any:
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            return None
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def _splits(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return into how many parts, each on one GPU, the arguments split a model in each way, unchecked."""
    return {key: arguments.get(key, 1) for key in ("tensor_parallel_size", "pipeline_parallel_size")}


def _model_problem(model: Any, folder: Path) -> str | None:
    """Return the mistake in an engine's weights, a name on a hub or a directory. None if it is right."""
    if not isinstance(model, str) or not model:
        return "missing; the name of a model on a hub, or the directory of one"
    if ".." in PurePosixPath(model).parts:
        return f'"{model}" leads out with ..; write the directory as the pods see it'
    if model.startswith("/"):
        served = served_path_problem(model, folder.parents[1])
        return f'"{model}" {served}' if served else None
    if (folder / model).is_dir():
        right = PurePosixPath(FETCHED_RELEASE, folder.parent.name, folder.name, model)
        return f'"{model}" is relative to where the server was started; write "{right}", which the pods have (access: local)'
    if _ON_A_HUB.fullmatch(model):
        return None
    return (
        f'"{model}" is neither a name on a hub nor an absolute directory: vLLM would look for it below the directory '
        "that the server was started in; write the directory as the pods see it"
    )


def _is_count(value: Any) -> TypeGuard[int]:
    return type(value) is int and value >= 1
