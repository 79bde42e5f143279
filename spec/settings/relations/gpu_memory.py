"""The GPU memory that a pod's models need and a GPU of the pool has."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spec.problem import Problem
from spec.settings.chart_values import values_of
from spec.settings.relations.subject import Subject, of_each_fleet, pool_of
from spec.settings.rule import rule, warning

CUDA_CONTEXT_MIB = 700
"""GPU memory of the CUDA context and its libraries before any model is loaded, per GPU and pod.

Measured on an H200 and rounded up. See docs/facts/gpu-memory.md#before-a-model.
"""
CUDA_POOL_MIB = 64
"""Default of --cuda-memory-pool-byte-size, per GPU. The pinned pool and the response cache are host memory."""
_CUDA_POOL = re.compile(r"--cuda-memory-pool-byte-size=([0-9]+):([0-9]+)")


@dataclass(frozen=True)
class _Term:
    name: str
    mib: int
    shown: str


def _term(name: str, instances: int, versions: int, mib: int) -> _Term:
    each = f"{instances} x {mib}" if versions == 1 else f"{versions} versions x {instances} x {mib}"
    return _Term(name, versions * instances * mib, f"{name} {each}")


def cuda_pool_mib(arguments: Sequence[str], gpus: int) -> int:
    """Return the largest CUDA pool of the server on one of its pod's GPUs, in MiB, rounded up."""
    given = {
        int(gpu): int(size) for gpu, size in (found.groups() for found in map(_CUDA_POOL.fullmatch, arguments) if found)
    }
    return max(math.ceil(given[gpu] / 1024**2) if gpu in given else CUDA_POOL_MIB for gpu in range(gpus))


@rule
@of_each_fleet
def _language_models_have_their_gpus(subject: Subject) -> Iterator[Problem]:
    """Require at least as many GPUs per pod as a language model is split over."""
    gpus = subject.document.triton.gpus
    for name, model in subject.document.models.serving.items():
        if model.llm is not None and model.llm.gpus > gpus:
            yield Problem(
                f"models.serving.{name}.llm.gpus",
                f"{model.llm.gpus} GPUs are more than the {gpus} of a pod; give triton.gpus: {model.llm.gpus}, or "
                "split the model over fewer",
            )


@rule
@of_each_fleet
def _models_fit_a_gpu(subject: Subject) -> Iterator[Problem]:
    """Require GPUs that hold the models of a pod.

    `instances` are per GPU and version, so each GPU of a pod holds all of them. An in-place rollout loads the new version of
    each changed model before it unloads any old one (modelctl/rollout/phases.py). So all models count twice. The memory of
    models without an entry is unknown here.
    """
    triton, served = subject.document.triton, subject.document.models
    release = served.release
    others = release.others if release is not None else {}
    models = [
        _term(
            name,
            subject.document.models.instances_of(name),
            1 + len(others.get(name, ())),
            subject.document.models.gpu_memory_of(name) or 0,
        )
        for name, model in subject.document.models.serving.items()
        if model.device == "gpu"
    ]
    if not models or not triton.gpus:
        return
    pool, types = pool_of(subject)
    terms = [*models, _Term("", CUDA_CONTEXT_MIB, f"CUDA context {CUDA_CONTEXT_MIB}")]
    pool_mib = cuda_pool_mib(values_of(subject.document).extra_args, triton.gpus)
    terms.append(_Term("", pool_mib, f"CUDA pool {pool_mib}"))
    if triton.rollout == "in-place":
        again = sum(term.mib for term in models)
        what = "all models" if len(models) > 1 else models[0].name
        terms.append(_Term("", again, f"{what} once more during an in-place rollout {again}"))
    smallest = min(types, key=lambda known: known.gpu_memory_gib)
    sharers, profile = pool.sharing.replicas, smallest.mig_profiles.get(pool.sharing.profile or "")
    room = profile.memory_mib if profile is not None else smallest.gpu_memory_gib * 1024 // sharers
    needed = sum(term.mib for term in terms)
    if needed > room:
        part = f", of which {sharers} pods share one by {pool.sharing.strategy}" if sharers > 1 else ""
        yield Problem(
            "models.serving",
            f"a pod needs {needed} MiB on each GPU ({' + '.join(term.shown for term in terms)}) and a {smallest.name} of "
            f"pool '{pool.name}' has {room} MiB ({smallest.gpu_name}{part}); "
            "use fewer instances, fewer models, or a pool with larger GPUs",
        )


@warning
def _memory_is_estimated(subject: Subject) -> Iterator[Problem]:
    """Warn of models on a GPU whose memory is not measured."""
    models = subject.document.models
    for name, model in models.serving.items():
        if model.device != "gpu" or model.gpu_memory_mib is not None or name in models.ensembles:
            continue
        estimate = models.gpu_memory_of(name)
        state = f"{estimate} MiB are estimated" if estimate is not None else "`modelctl release` will estimate it"
        yield Problem(
            f"models.serving.{name}.gpuMemoryMiB",
            f"is not given, and {state} from the size of the model's files; measure an instance at its largest batch and "
            "write that",
        )


def misfits(subject: Subject) -> list[Problem]:
    """Return the problems if the models of a stack do not fit the GPUs of its pods."""
    return [*_language_models_have_their_gpus(subject), *_models_fit_a_gpu(subject)]
