"""Check that instance groups and optimizations are explicit, so the server does not guess them."""

from __future__ import annotations

from collections.abc import Iterator

from tritonclient.grpc.model_config_pb2 import ModelConfig, ModelInstanceGroup

from modelctl.repository.backends import DEFAULT_MODEL_FILES, backend_of

_MOST_INSTANCES = 1024
"""Each instance is a thread of the server, or a process, with the model in memory."""


def left_open(config: ModelConfig) -> Iterator[str]:
    """Yield missing or multiplying instance groups.

    A missing count is accepted: the server uses 1, and 2 for ONNX models on CPUs (`SetDefaultInstanceCount` in
    https://github.com/triton-inference-server/core/blob/73aad7c/src/model_config_utils.cc#L1030-L1048).
    """
    if not config.instance_group:
        yield (
            "instance_group: missing, so the server starts one instance per GPU it finds, or one on the CPU; "
            "write instance_group [ { kind: KIND_GPU count: 1 } ] or KIND_CPU"
        )
    for index, group in enumerate(config.instance_group):
        yield from _group(f"instance_group[{index}]", group)


def _group(where: str, group: ModelInstanceGroup) -> Iterator[str]:
    kind = ModelInstanceGroup.Kind.Name(group.kind)
    if group.kind == ModelInstanceGroup.KIND_AUTO:
        yield f"{where}.kind: missing; KIND_GPU, KIND_CPU or KIND_MODEL"
    if group.count < 0:
        yield f"{where}.count: {group.count} is no number of instances; write at least 1"
    if group.count > _MOST_INSTANCES:
        yield (
            f"{where}.count: {group.count} instances are more than a pod holds, each with the model in memory; "
            "write 1 or a few"
        )
    if not group.gpus:
        return
    if group.kind == ModelInstanceGroup.KIND_GPU:
        total = max(group.count, 1) * len(group.gpus)
        yield (
            f"{where}.gpus: the device plugin decides which GPUs a pod sees, and count is per GPU "
            f"({max(group.count, 1)} on each of {len(group.gpus)} is {total} instances); leave gpus out"
        )
    else:
        yield f"{where}.gpus: {kind} takes no GPUs; leave gpus out"


def check(config: ModelConfig) -> Iterator[str]:
    """Yield groups of several kinds, and optimizations that the backend ignores."""
    kinds = sorted({ModelInstanceGroup.Kind.Name(g.kind) for g in config.instance_group if g.kind})
    if len(kinds) > 1:
        yield (
            f"instance_group: {' and '.join(kinds)} in one model share one queue, so the slower takes work from the "
            "faster; use one kind"
        )
    accelerators = config.optimization.execution_accelerators
    for field in ("gpu_execution_accelerator", "cpu_execution_accelerator"):
        for index, accelerator in enumerate(getattr(accelerators, field)):
            if not accelerator.name:
                yield (
                    f"optimization.execution_accelerators.{field}[{index}].name: missing, so the server ignores it; "
                    'for example "tensorrt"'
                )
    backend = backend_of(config)
    if config.optimization.cuda.graphs and backend in DEFAULT_MODEL_FILES and backend != "tensorrt":
        yield f"optimization.cuda.graphs: the {backend} backend ignores it; only tensorrt has CUDA graphs"
