"""Relations between the options of models, the server and the pinned release."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import wraps

from spec.measured_latency import COMPUTE_CAPABILITY, GPU, LARGEST, RECORD
from spec.problem import Problem
from spec.settings.digest import serving_digest
from spec.settings.fields import cpu_millis
from spec.settings.relations.subject import Subject, nodes_of, of_each_fleet
from spec.settings.rule import rule, warning
from spec.settings.section import Absent
from spec.settings.serving import ModelServing
from spec.wording import did_you_mean, one_of


@dataclass(frozen=True)
class _Entry:
    """One model of `models.serving` and its path."""

    name: str
    model: ModelServing
    path: str
    subject: Subject


def _of_each_model(check: Callable[[_Entry], Iterator[Problem]]) -> Callable[[Subject], Iterator[Problem]]:
    """Turn a rule about one model into a rule about all. A missing value of one model does not stop the others."""

    @wraps(check)
    def run(subject: Subject) -> Iterator[Problem]:
        for name, model in subject.document.models.serving.items():
            try:
                yield from check(_Entry(name, model, f"models.serving.{name}", subject))
            except Absent:
                continue

    return run


@rule
@_of_each_model
def _is_in_the_release(entry: _Entry) -> Iterator[Problem]:
    """Require models that are in the release."""
    release = entry.subject.document.models.release
    if release is not None and entry.name not in release.models:
        near = did_you_mean(entry.name, release.models)
        yield Problem(entry.path, f"release {release.label} has no such model; {near}it has {one_of(release.models)}")


@rule
@_of_each_model
def _resources_are_there(entry: _Entry) -> Iterator[Problem]:
    """Require resources that triton.rateLimiterResources has, and no more of each than a pod has."""
    limiter, there = entry.model.rate_limiter, entry.subject.document.triton.rate_limiter_resources
    for name, count in (limiter.resources if limiter is not None else {}).items():
        path = f"{entry.path}.rateLimiter.resources.{name}"
        if there and name not in there:
            near = did_you_mean(name, there)
            yield Problem(path, f"triton.rateLimiterResources has no '{name}'; {near}use {one_of(there)}")
        elif there and count > there[name]:
            yield Problem(path, f"{count} are more than a pod has, so the model would never run; give 1 to {there[name]}")


@rule
def _cache_has_a_size_and_a_use(subject: Subject) -> Iterator[Problem]:
    """Require triton.responseCacheMiB if a model has responseCache, and refuse it otherwise."""
    cached = [name for name, model in subject.document.models.serving.items() if model.response_cache]
    size = subject.document.triton.response_cache_mib
    path = "triton.responseCacheMiB"
    if cached and size is None:
        yield Problem(path, f"is missing; {one_of(cached)} has responseCache, give the cache of a pod in MiB, like 64")
    if size is not None and not cached:
        yield Problem(path, "no model of models.serving has responseCache; remove it, or set responseCache: true")


@rule
def _resources_have_a_use(subject: Subject) -> Iterator[Problem]:
    """Require triton.rateLimiterResources where a model has rateLimiter, and only resources that one takes."""
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


@rule
def _release_is_made_of_this(subject: Subject) -> Iterator[Problem]:
    """Require a release that was made from the current models.serving and the GPUs of Triton's pool.

    Pods use the configs of the release, so later changes of models.serving would have no effect.
    """
    models = subject.document.models
    release = models.release
    if release is None:
        return
    for fleet in subject.document.each_fleet:
        nodes_of(replace(subject, document=fleet.stack))  # raises Absent if the nodes are unknown
    path, again = "models.release.serving", f"run `python -m modelctl release … --pin stacks/Pulumi.{subject.stack}.yaml`"
    if not models.serving:
        if release.serving is not None:
            yield Problem(path, f"there is no models.serving since release {release.label} was made; {again}")
    elif release.serving is None:
        yield Problem(path, f"is missing; release {release.label} was made without models.serving; {again}")
    elif release.serving != serving_digest(subject.document):
        yield Problem(
            path,
            f"models.serving, or the kind of GPU of Triton's pool, changed since release {release.label} was made; {again}",
        )


@rule
@_of_each_model
def _slo_is_not_below_a_record(entry: _Entry) -> Iterator[Problem]:
    """Refuse an SLO below the measured p95 of a model's largest requests on a GPU at least as fast.

    The measurements are in spec/measured_latency.py. `tuned` with evidence for requests of another size is an exception.
    """
    model, largest, document = entry.model, LARGEST.get(entry.name), entry.subject.document
    capabilities = [known.compute_capability for pool in document.gpu.pools for known in pool.gpu_types]
    same_models = document.models.serving.keys() >= LARGEST.keys()
    if largest is None or not same_models or any((one or 0) > COMPUTE_CAPABILITY for one in capabilities):
        return
    if model.device == "gpu" and model.tuned is None and model.slo_p95_ms < largest.p95_ms:
        yield Problem(
            f"{entry.path}.sloP95Ms",
            f"{model.slo_p95_ms} ms are less than the {largest.p95_ms:g} ms in which an {GPU} answered 95 % of requests of "
            f"{' x '.join(map(str, largest.shape))} ({RECORD}); use {math.ceil(largest.p95_ms)} or more, or run "
            "`modelctl tune` with smaller requests, which writes tuned",
        )


@warning
@of_each_fleet
def _instances_have_cpus(subject: Subject) -> Iterator[Problem]:
    """Warn of more CPU instances than a pod has vCPUs."""
    models = subject.document.models
    instances = {name: models.instances_of(name) for name, model in models.serving.items() if model.device == "cpu"}
    total, cpu = sum(instances.values()), subject.document.triton.cpu
    if total * 1000 > cpu_millis(cpu):
        yield Problem(
            "triton.cpu",
            f"{total} instances on the CPU ({_counted(instances)}) share {cpu} vCPUs, so that a batch takes longer when "
            "all are busy; raise cpu, or use fewer instances",
        )


def _counted(instances: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in instances.items())
