"""What a stack wants of its models: values that agree with one another, with the server, and with the pinned release."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from spec.settings.checks.subject import Check, Subject
from spec.settings.checks.triton import pool_of
from spec.settings.digest import serving_digest
from spec.settings.fields import cpu_millis
from spec.settings.problem import Problem
from spec.settings.section import Absent
from spec.settings.serving import ModelServing
from spec.wording import did_you_mean, one_of


@dataclass(frozen=True)
class _Entry:
    """One model of `models.serving`, and its path."""

    name: str
    model: ModelServing
    path: str
    subject: Subject


_EntryCheck = Callable[[_Entry], Iterator[Problem]]


def _of_each_model(check: _EntryCheck) -> Check:
    """A check of one model as one of all: a value that one of them lacks does not end the check of the others."""

    def run(subject: Subject) -> Iterator[Problem]:
        for name, model in subject.document.models.serving.items():
            try:
                yield from check(_Entry(name, model, f"models.serving.{name}", subject))
            except Absent:
                continue

    return run


def _is_in_the_release(entry: _Entry) -> Iterator[Problem]:
    release = entry.subject.document.models.release
    if release is not None and entry.name not in release.models:
        near = did_you_mean(entry.name, release.models)
        yield Problem(entry.path, f"release {release.id} has no such model; {near}it has {one_of(release.models)}")


def _peak_is_the_most(entry: _Entry) -> Iterator[Problem]:
    model = entry.model
    if model.peak_rate < model.expected_rate:
        yield Problem(
            f"{entry.path}.peakRate",
            f"{model.peak_rate:g} is less than expectedRate {model.expected_rate:g}; give {model.expected_rate:g} or more",
        )


def _delay_is_within_the_slo(entry: _Entry) -> Iterator[Problem]:
    """A lone request waits exactly the delay (docs/facts/triton-configuration.md#queue-delay)."""
    model = entry.model
    slo_us = model.slo_p95_ms * 1000
    if model.max_queue_delay_us is not None and model.max_queue_delay_us >= slo_us:
        yield Problem(
            f"{entry.path}.maxQueueDelayUs",
            f"a lone request would wait {model.max_queue_delay_us} µs and the SLO is {slo_us} µs; "
            "give less, 0 to 1000 as a rule",
        )


def _gpu_memory_is_of_gpu_models(entry: _Entry) -> Iterator[Problem]:
    path, memory = f"{entry.path}.gpuMemoryMiB", entry.model.gpu_memory_mib
    if entry.model.device == "gpu" and memory is None:
        yield Problem(path, "is missing; give the GPU memory of one instance at its largest batch in MiB, like 900")
    if entry.model.device == "cpu" and memory is not None:
        yield Problem(path, "a model with device cpu takes no GPU memory; remove it, or use device: gpu")


def _gpu_wants_are_of_gpu_models(entry: _Entry) -> Iterator[Problem]:
    model = entry.model
    if model.device == "gpu":
        return
    for key, wanted, what in (
        ("preferredBatchSizes", model.preferred_batch_sizes, "are for TensorRT plans"),
        ("tensorrtFp16", model.tensorrt_fp16, "is for ONNX models on a GPU"),
        ("cudaGraphs", model.cuda_graphs, "are for TensorRT plans"),
    ):
        if wanted:
            yield Problem(f"{entry.path}.{key}", f"{what} and the device is cpu; remove it, or use device: gpu")


def _formats_do_not_mix(entry: _Entry) -> Iterator[Problem]:
    """`tensorrt_fp16` is an accelerator of the ONNX backend, the other two are for models of the TensorRT backend."""
    model = entry.model
    if not model.tensorrt_fp16:
        return
    for key, wanted in (("preferredBatchSizes", model.preferred_batch_sizes), ("cudaGraphs", model.cuda_graphs)):
        if wanted:
            yield Problem(f"{entry.path}.{key}", "is for TensorRT plans and tensorrtFp16 for ONNX models; remove one")


def _batches_are_possible(entry: _Entry) -> Iterator[Problem]:
    model = entry.model
    largest = model.max_batch_size
    for key, sizes in (("preferredBatchSizes", model.preferred_batch_sizes), ("warmup", model.warmup or ())):
        for index, size in enumerate(sizes):
            path = f"{entry.path}.{key}[{index}]"
            if size in sizes[:index]:
                yield Problem(path, f"{size} is listed twice; list each size once")
            elif largest is not None and size > largest:
                yield Problem(path, f"{size} is more than maxBatchSize {largest}; give 1 to {largest}")


def _priorities_are_levels(entry: _Entry) -> Iterator[Problem]:
    priorities = entry.model.priorities
    if priorities is None:
        return
    if priorities.levels < 2:
        yield Problem(f"{entry.path}.priorities.levels", "1 level is no priority; give 2 or more, or remove priorities")
    elif priorities.default > priorities.levels:
        yield Problem(
            f"{entry.path}.priorities.default",
            f"{priorities.default} is more than the {priorities.levels} levels; give 1 to {priorities.levels}",
        )


def _sequences_have_no_dynamic_batcher(entry: _Entry) -> Iterator[Problem]:
    model = entry.model
    if model.sequence is None:
        return
    for key, wanted in (
        ("maxQueueDelayUs", model.max_queue_delay_us is not None),
        ("preferredBatchSizes", bool(model.preferred_batch_sizes)),
        ("priorities", model.priorities is not None),
    ):
        if wanted:
            yield Problem(f"{entry.path}.{key}", "is of dynamic batching, which sequence takes the place of; remove one")


def _candidates_are_of_the_oldest(entry: _Entry) -> Iterator[Problem]:
    sequence = entry.model.sequence
    if sequence is not None and sequence.strategy == "direct" and sequence.max_candidates is not None:
        path = f"{entry.path}.sequence.maxCandidates"
        yield Problem(path, "strategy 'direct' has no candidates; remove it, or use strategy: oldest")


def _responses_can_be_cached(entry: _Entry) -> Iterator[Problem]:
    """Server 2.51 refuses to load either: "does not currently support" (measured)."""
    model = entry.model
    if not model.response_cache:
        return
    for key, wanted in (("decoupled", model.decoupled), ("sequence", model.sequence is not None)):
        if wanted:
            yield Problem(f"{entry.path}.responseCache", f"Triton does not cache a model with {key}; remove one")


def _resources_are_there(entry: _Entry) -> Iterator[Problem]:
    limiter, there = entry.model.rate_limiter, entry.subject.document.triton.rate_limiter_resources
    for name, count in (limiter.resources if limiter is not None else {}).items():
        path = f"{entry.path}.rateLimiter.resources.{name}"
        if there and name not in there:
            near = did_you_mean(name, there)
            yield Problem(path, f"triton.rateLimiterResources has no '{name}'; {near}use {one_of(there)}")
        elif there and count > there[name]:
            yield Problem(path, f"{count} are more than a pod has, so the model would never run; give 1 to {there[name]}")


def _cache_has_a_size_and_a_use(subject: Subject) -> Iterator[Problem]:
    cached = [name for name, model in subject.document.models.serving.items() if model.response_cache]
    size, memory_gib = subject.document.triton.response_cache_mib, subject.document.triton.memory_gib
    path = "triton.responseCacheMiB"
    if cached and size is None:
        yield Problem(path, f"is missing; {one_of(cached)} has responseCache, give the cache of a pod in MiB, like 64")
    if size is not None and not cached:
        yield Problem(path, "no model of models.serving has responseCache; remove it, or set responseCache: true")
    elif size is not None and size >= memory_gib * 1024:
        yield Problem(path, f"{size} MiB of host memory are not in a pod of {memory_gib} GiB; give less, or raise memoryGiB")


def _resources_have_a_use(subject: Subject) -> Iterator[Problem]:
    wanted: dict[str, str] = {}
    for name, model in subject.document.models.serving.items():
        for resource in model.rate_limiter.resources if model.rate_limiter is not None else ():
            wanted.setdefault(resource, name)
    there, path = subject.document.triton.rate_limiter_resources, "triton.rateLimiterResources"
    if wanted and not there:
        resource, name = next(iter(wanted.items()))
        yield Problem(path, f"is missing; {name} has a rateLimiter, give what a pod has, like {{{resource}: 4}}")
    for resource in there:
        if resource not in wanted:
            near = did_you_mean(resource, wanted)
            yield Problem(f"{path}.{resource}", f"no model's rateLimiter takes any; {near}remove it")


def _release_is_of_these_wants(subject: Subject) -> Iterator[Problem]:
    """The pods get the configs of the release: what is wanted since then would be written here and served nowhere."""
    models = subject.document.models
    release = models.release
    if release is None:
        return
    pool_of(subject)  # without a pool of known GPUs there is nothing to compare with
    path, again = "models.release.serving", f"run `python -m modelctl release … --pin stacks/Pulumi.{subject.stack}.yaml`"
    if not models.serving:
        if release.serving is not None:
            yield Problem(path, f"there is no models.serving since release {release.id} was made; {again}")
    elif release.serving is None:
        yield Problem(path, f"is missing; release {release.id} was made without models.serving; {again}")
    elif release.serving != serving_digest(subject.document):
        yield Problem(
            path,
            f"models.serving, or the kind of GPU of Triton's pool, changed since release {release.id} was made; {again}",
        )


def _instances_have_cpus(subject: Subject) -> Iterator[Problem]:
    instances = {name: model.instances for name, model in subject.document.models.serving.items() if model.device == "cpu"}
    total, cpu = sum(instances.values()), subject.document.triton.cpu
    if total * 1000 > cpu_millis(cpu):
        yield Problem(
            "triton.cpu",
            f"{total} instances on the CPU ({_counted(instances)}) share {cpu} vCPUs, so that a batch takes longer when "
            "all are busy; raise cpu, or use fewer instances",
        )


def _counted(instances: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in instances.items())


CHECKS: tuple[Check, ...] = (
    *(
        _of_each_model(check)
        for check in (
            _is_in_the_release,
            _peak_is_the_most,
            _delay_is_within_the_slo,
            _gpu_memory_is_of_gpu_models,
            _gpu_wants_are_of_gpu_models,
            _formats_do_not_mix,
            _batches_are_possible,
            _priorities_are_levels,
            _sequences_have_no_dynamic_batcher,
            _candidates_are_of_the_oldest,
            _responses_can_be_cached,
            _resources_are_there,
        )
    ),
    _cache_has_a_size_and_a_use,
    _resources_have_a_use,
    _release_is_of_these_wants,
)
WARNINGS: tuple[Check, ...] = (_instances_have_cpus,)
