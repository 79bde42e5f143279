"""Rules about several fleets: their models, their nodes and shared settings."""

import math
from collections.abc import Iterator

from spec.problem import Problem
from spec.settings.chart_values import values_of
from spec.settings.gpu import GpuPool
from spec.settings.nodes import CPU_POOL_NAME
from spec.settings.relations import triton
from spec.settings.relations.subject import Subject, of_each_fleet, pool_of
from spec.settings.rule import rule
from spec.settings.section import Absent
from spec.wording import did_you_mean, one_of


@rule
def _names_are_distinct(subject: Subject) -> Iterator[Problem]:
    """Require a unique name for each fleet."""
    seen: set[str] = set()
    for fleet in subject.document.each_fleet:
        if fleet.name and fleet.name in seen:
            yield Problem(f"fleets[{fleet.index}].name", f"'{fleet.name}' is the name of another fleet; give each its own")
        seen.add(fleet.name or "")


@rule
def _models_are_known(subject: Subject) -> Iterator[Problem]:
    """Require models that models.serving or the release has."""
    models = subject.document.models
    if models.release is None:
        return  # before the first release, only models.serving lists models, and an ensemble needs no entry there
    known = sorted({*models.serving, *models.release.models})
    for fleet in subject.document.each_fleet:
        for index, model in enumerate(fleet.keys.__dict__.get("models", ()) if fleet.keys is not None else ()):
            if model not in known:
                near = did_you_mean(model, known)
                yield Problem(
                    f"fleets[{fleet.index}].models[{index}]",
                    f"neither models.serving nor release {models.release.label} has '{model}'; {near}use {one_of(known)}",
                )


@rule
def _every_model_has_a_fleet(subject: Subject) -> Iterator[Problem]:
    """Require a fleet for each model of models.serving and of the release."""
    models, fleets = subject.document.models, subject.document.each_fleet
    wanted = [*models.serving, *(models.release.models if models.release is not None else ())]
    for model in sorted(set(wanted)):
        if not any(fleet.serves(model) for fleet in fleets):
            yield Problem("fleets", f"no fleet serves '{model}', and nobody could ask it; add it to the models of one")


@rule
def _somebody_is_asked(subject: Subject) -> Iterator[Problem]:
    """Require a weight above 0 on one of the fleets that serve a model. A model on a single fleet has no weight."""
    fleets = subject.document.each_fleet
    for fleet in fleets:
        for model in fleet.keys.weights if fleet.keys is not None else ():
            serving = [other for other in fleets if other.serves(model)]
            path = f"fleets[{fleet.index}].weights.{model}"
            if serving == [fleet]:
                yield Problem(path, f"no other fleet serves '{model}', so that it is always asked; remove the weight")
            elif fleet in serving and not any(other.weight(model) for other in serving):
                yield Problem(path, f"every fleet that serves '{model}' has the weight 0; give one of them more")


@rule
@of_each_fleet
def _pods_without_gpus_have_nodes(subject: Subject) -> Iterator[Problem]:
    """Require nodes.cpu for a fleet without GPUs, and no GPUs for a fleet on nodes.cpu."""
    server, cpu = subject.document.triton, subject.document.nodes.cpu
    if server.gpus and server.pool == CPU_POOL_NAME and cpu is not None:
        yield Problem("triton.gpus", f"{server.gpus} are more than the nodes of nodes.cpu have, which is none; use 0")
    elif not server.gpus and server.pool != CPU_POOL_NAME:
        yield Problem(
            "triton.gpus",
            f"0 leave the GPUs of pool '{server.pool}' idle; use 1 or more, or pool: {CPU_POOL_NAME} (nodes.cpu)",
        )
    elif not server.gpus and cpu is None:
        yield Problem(
            "triton.pool", "the stack has no nodes.cpu; add it, like {instanceTypes: [m7i.2xlarge], max: 4, diskGiB: 100}"
        )


@rule
@of_each_fleet
def _models_for_gpus_have_some(subject: Subject) -> Iterator[Problem]:
    """Refuse models with device: gpu in a fleet without GPUs."""
    if subject.document.triton.gpus:
        return
    for name, model in subject.document.models.serving.items():
        if model.device == "gpu":
            yield Problem(
                f"models.serving.{name}.device", "the pods have no GPU; use device: cpu, or serve it from a fleet with GPUs"
            )


@rule
def _fleets_fit_their_pool(subject: Subject) -> Iterator[Problem]:
    """Require pools with enough nodes for all pods of their fleets. Each node counts for one fleet only."""
    if subject.document.fleets is None:
        return
    needed: dict[str, list[tuple[str, int]]] = {}
    for fleet in subject.document.each_fleet:
        seen = Subject(fleet.stack, subject.stack, subject.today)
        try:
            pool, nodes = nodes_for_pods(seen)
        except Absent:
            continue
        needed.setdefault(pool.name, []).append((fleet.name or "", nodes))
    grows = subject.document.node_autoscaler != "none"
    for index, pool in enumerate(subject.document.gpu.pools):
        fleets = needed.get(pool.name, [])
        room, total = pool.max if grows else pool.desired, sum(nodes for _, nodes in fleets)
        # A problem of a single fleet is reported with its own key.
        if len(fleets) > 1 and total > room and all(nodes <= room for _, nodes in fleets):
            listed = ", ".join(f"{name} {nodes}" for name, nodes in fleets)
            yield Problem(
                f"gpu.pools[{index}].{'max' if grows else 'desired'}",
                f"{room} nodes do not hold the pods of all its fleets, which fill {total} ({listed}); give {total}, or a "
                "fleet a pool of its own",
            )


def nodes_for_pods(subject: Subject) -> tuple[GpuPool, int]:
    """Return the GPU pool of a stack with one fleet, and the nodes that its maximum of pods fills. Raises Absent."""
    pool, types = pool_of(subject)
    per_node = min(triton.pods_per_node(subject.document, pool, known) for known in types)
    return pool, math.ceil(triton.most_pods(subject)[1] / per_node) if per_node else 0


@rule
def _targets_are_of_its_models(subject: Subject) -> Iterator[Problem]:
    """Require targets in a fleet's own autoscaling only for models that it serves and models.serving has."""
    for fleet in subject.document.each_fleet:
        bounds = fleet.keys.autoscaling if fleet.keys is not None else None
        models = sorted(fleet.stack.models.serving)
        for name in bounds.targets if bounds is not None else ():
            if name not in models:
                valid = f"use {one_of(models)}" if models else "remove it"
                yield Problem(
                    f"fleets[{fleet.index}].autoscaling.targets.{name}",
                    f"the fleet serves no '{name}' that models.serving has; {did_you_mean(name, models)}{valid}",
                )


@rule
def _one_prometheus(subject: Subject) -> Iterator[Problem]:
    """Require the same prometheusUrl for all scaled fleets."""
    first: str | None = None
    for fleet in subject.document.each_fleet:
        bounds = fleet.stack.autoscaling
        if fleet.keys is None or bounds is None or bounds.prometheus_url is None:
            continue
        first = first or bounds.prometheus_url
        if bounds.prometheus_url != first:
            yield fleet.problem(Problem("autoscaling.prometheusUrl", f"another fleet asks {first}; give one for all"))


@rule
def _objects_have_one_owner(subject: Subject) -> Iterator[Problem]:
    """Refuse the chart's extraObjects with several fleets, because each fleet's chart would own them."""
    fleets, objects = len(subject.document.fleets or ()), values_of(subject.document).extra_objects
    if fleets > 1 and objects:
        yield Problem(
            "fleets",
            f"extraObjects of helm-values/triton ({', '.join(objects)}) would be owned by each of the {fleets} fleets, and "
            "go with the first of them that goes; make them elsewhere in the namespace",
        )


@rule
def _models_have_what_they_need(subject: Subject) -> Iterator[Problem]:
    """Require each fleet to have all models that its models need: the steps of an ensemble and the models that they call.

    The server loads a step that the fleet does not list, but its pods' readiness and memory budget ignore that step. A model
    can only call models on its own server.
    """
    release, needed = subject.document.models.release, subject.document.models.needed
    ensembles = release.ensembles if release is not None else {}
    for fleet in subject.document.each_fleet:
        models = fleet.keys.__dict__.get("models", ()) if fleet.keys is not None else ()
        for index, model in enumerate(models):
            missing = [other for other in needed.get(model, ()) if other not in models]
            if missing:
                names = ", ".join(missing)
                lacks = f"is an ensemble, and the fleet lacks {names} of its steps"
                asks = f"asks {names} inside of its server, and the fleet lacks {'it' if len(missing) == 1 else 'them'}"
                yield Problem(
                    f"fleets[{fleet.index}].models[{index}]",
                    f"'{model}' {lacks if model in ensembles else asks}; add {'it' if len(missing) == 1 else 'them'}",
                )


@rule
def _sequences_stay_in_a_fleet(subject: Subject) -> Iterator[Problem]:
    """Refuse a model with sequence on two fleets that share its requests. A sequence has to stay on one server."""
    if subject.document.fleets is None:
        return
    fleets = subject.document.each_fleet
    for name, model in subject.document.models.serving.items():
        asked = [fleet for fleet in fleets if fleet.serves(name) and fleet.weight(name)]
        if model.__dict__.get("sequence") is not None and len(asked) > 1:
            names = " and ".join(str(fleet.name) for fleet in asked)
            yield Problem(
                f"models.serving.{name}.sequence",
                f"fleets {names} share its requests, and those of a sequence belong to one server; give all but one the "
                "weight 0, or serve it from one",
            )
