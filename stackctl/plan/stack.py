"""Read the input of a plan from a stack file: model groups and pools.

Groups have loads; pools have the number of pods that a node holds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from spec.failure import NOT_TRIED, Failure
from spec.settings import GpuPool, Settings
from spec.settings.fleets import FleetKeys, seen_by
from spec.settings.nodes import CPU_POOL_NAME, CpuPool
from spec.settings.relations import Subject, gpu_memory, triton
from spec.wording import did_you_mean, one_of
from stackctl.cost import throughput
from stackctl.cost.prices import EC2, PriceTable
from stackctl.cost.throughput import Measured
from stackctl.cost.usage import node_cost
from stackctl.plan.search import Group, Pool

Rates = Mapping[tuple[str, str], float]
"""Requests per second that a pod serves within the SLO, by model and pool."""
_RATE = re.compile(r"(?P<model>[^@=]+)@(?P<pool>[^@=]+)=(?P<rate>[0-9]+(\.[0-9]+)?)")


class NoPlan(Failure):
    """No plan is possible. The text has each missing or wrong value."""

    exit_code = NOT_TRIED


@dataclass(frozen=True)
class Wants:
    """The input of a plan. `unknown`: possible places without a known rate, as `model@pool`."""

    groups: tuple[Group, ...]
    pools: tuple[Pool, ...]
    shapes: Mapping[str, Mapping[str, Any]]
    fewest: int
    unknown: tuple[str, ...]


def given_rates(words: Sequence[str], settings: Settings) -> dict[tuple[str, str], float]:
    """Return the rates from `MODEL@POOL=RATE` arguments. Raises NoPlan with all errors."""
    models, pools = sorted(settings.models.serving), sorted(_groups_of_nodes(settings))
    found: dict[tuple[str, str], float] = {}
    wrong = []
    for word in words:
        parts = _RATE.fullmatch(word)
        if parts is None or float(parts["rate"]) == 0:
            wrong.append(f"--rate {word!r}: write MODEL@POOL=REQUESTS_PER_SECOND, like embed@g5=120")
            continue
        place = parts["model"], parts["pool"]
        for name, known, what in zip(place, (models, pools), ("model of models.serving", "pool of the stack"), strict=True):
            if name not in known:
                wrong.append(f"--rate {word!r}: '{name}' is no {what}; {did_you_mean(name, known)}use {one_of(known)}")
        if place in found:
            wrong.append(f"--rate {word!r}: another --rate is of {place[0]} on {place[1]}; give one")
        found[place] = float(parts["rate"])
    if wrong:
        raise NoPlan("\n".join(wrong))
    return found


def measured(settings: Settings) -> dict[tuple[str, str], float]:
    """Return the rates from the stack file's evidence, by model and pool.

    The pools are those that serve the model today. Rates that do not hold for a pod there are left out. Raises
    EvidenceError.
    """
    not_there = not_of_gpus(settings)
    return {place: evidence.rate for place, evidence in _evidence(settings).items() if place not in not_there}


def not_of_gpus(settings: Settings) -> dict[tuple[str, str], str]:
    """Return why measured rates do not hold for a pod, by model and GPU pool.

    The evidence does not distinguish a GPU behind a forwarded port from a laptop's CPUs. Raises EvidenceError.
    """
    return {
        (model, pool): f"the rate of {model} was measured with its server on {evidence.where}, or behind a forwarded port, "
        f"which says nothing of the GPUs of {pool}; give what a pod there holds with --rate {model}@{pool}=RATE"
        for (model, pool), evidence in sorted(_evidence(settings).items())
        if evidence.server_on_loopback and pool != CPU_POOL_NAME
    }


def _evidence(settings: Settings) -> dict[tuple[str, str], Measured]:
    return {
        (model, fleet.stack.triton.pool): evidence
        for model, evidence in throughput.measured(settings).items()
        for fleet in settings.each_fleet
        if fleet.serves(model)
    }


def wants(settings: Settings, rates: Rates, prices: PriceTable, *, peak: bool) -> Wants:
    """Return the input of a plan for the peak or the expected rates. Raises NoPlan with all missing values."""
    shapes = {name: _shape(settings, name) for name in _groups_of_nodes(settings)}
    pools, problems = _pools(settings, shapes, prices)
    groups, unknown = [], []
    for models in _together(settings):
        places = [
            name for name in shapes if name != CPU_POOL_NAME or all(_device(settings, model) == "cpu" for model in models)
        ]
        loads: dict[str, float] = {}
        for name in places:
            lacking = [
                f"{model}@{name}" for model in models if model in settings.models.serving and (model, name) not in rates
            ]
            unknown += lacking
            if not lacking and name in pools:
                loads[name] = sum(
                    (wanted.peak_rate if peak else wanted.expected_rate) / rates[model, name]
                    for model in models
                    if (wanted := settings.models.serving.get(model)) is not None
                )
        if not loads:
            problems.append(_nowhere(settings, models, places))
        groups.append(Group(models, loads))
    if problems:
        raise NoPlan("\n".join(problems))
    fewest = 2 if settings.environment == "prod" else 1
    return Wants(tuple(groups), tuple(pools.values()), shapes, fewest, tuple(unknown))


def _nowhere(settings: Settings, models: Sequence[str], places: Sequence[str]) -> str:
    names = " and ".join(models)
    if not places:
        return f"{names} can be on no pool: they want a GPU, and the stack has none"
    options = " ".join(f"--rate {model}@{places[0]}=120" for model in models if model in settings.models.serving)
    elsewhere = "".join(f"; {why}" for (model, _), why in not_of_gpus(settings).items() if model in models)
    return (
        f"no pool is known to hold {names}; tune there (`modelctl tune … --stack NAME`), or give rates, like {options}"
        f"{elsewhere}"
    )


def keys(name: str, models: Sequence[str], shape: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return an entry of `fleets`."""
    return {"name": name, "models": list(models), **shape, **more}


def fit(settings: Settings, shapes: Mapping[str, Mapping[str, Any]], pool: str, models: frozenset[str]) -> bool:
    """Return whether a pod's GPUs on a pool hold these models together."""
    if pool == CPU_POOL_NAME:
        return True
    view = _seen(settings, shapes[pool], sorted(models))
    return not gpu_memory.misfits(Subject(view, settings.stack, date.today()))


def _seen(settings: Settings, shape: Mapping[str, Any], models: Sequence[str]) -> Settings:
    return seen_by(FleetKeys.model_validate({"name": "plan", "models": tuple(models), **shape}), settings)


def _groups_of_nodes(settings: Settings) -> dict[str, GpuPool | CpuPool]:
    found: dict[str, GpuPool | CpuPool] = {pool.name: pool for pool in settings.gpu.pools}
    return found | ({CPU_POOL_NAME: settings.nodes.cpu} if settings.nodes.cpu is not None else {})


def _shape(settings: Settings, pool: str) -> dict[str, Any]:
    """Return the keys of a fleet's pods on a pool.

    They come from a fleet that exists there, otherwise from the section `triton`, with the largest GPU count of a
    language model.
    """
    server = next((fleet.stack.triton for fleet in settings.each_fleet if fleet.stack.triton.pool == pool), None)
    sizes = server or settings.triton
    split = [model.llm.gpus for model in settings.models.serving.values() if model.llm is not None]
    gpus = 0 if pool == CPU_POOL_NAME else server.gpus if server is not None else max(1, *split) if split else 1
    return {"pool": pool, "gpus": gpus, "cpu": sizes.cpu, "memoryGiB": sizes.memory_gib}


def _pools(
    settings: Settings, shapes: Mapping[str, Mapping[str, Any]], prices: PriceTable
) -> tuple[dict[str, Pool], list[str]]:
    found, problems = {}, []
    for name, group in _groups_of_nodes(settings).items():
        usd = node_cost(settings, group, prices)
        shape = shapes[name]
        held = triton.pods_per_node(_seen(settings, shape, sorted(settings.models.serving)), group, group.types[0])
        if usd.is_nan():
            problems.append(f"pool {name}: {prices.missing([f'{EC2}.{group.instance_types[0]}'])}")
        elif held:
            found[name] = Pool(name, float(usd), held)
        else:
            problems.append(
                f"pool {name}: a {group.types[0].name} holds no pod with {shape['gpus']} GPUs, {shape['cpu']} vCPUs and "
                f"{shape['memoryGiB']} GiB; give a fleet on it another size in the stack file, or remove the pool"
            )
    return found, problems


def _device(settings: Settings, model: str) -> str:
    wanted = settings.models.serving.get(model)
    return "cpu" if wanted is None else wanted.device


def _together(settings: Settings) -> list[tuple[str, ...]]:
    """Return the groups of models that must share a fleet.

    A group is a model with the models that its server needs. Other models are groups by themselves. Raises NoPlan if a
    model of the release has no request rate.
    """
    ensembles, needed, release = settings.models.ensembles, settings.models.needed, settings.models.release
    names = sorted({*settings.models.serving, *(release.models if release is not None else ())})
    within = {*ensembles, *(other for own in needed.values() for other in own)}
    silent = [name for name in names if name not in settings.models.serving and name not in within]
    if silent:
        raise NoPlan(
            f"models.serving says no rates of {', '.join(silent)}, which the release has; add them, or, for an ensemble, "
            "release again (`modelctl release … --pin`), so that the stack file says of which models it is one"
        )
    groups: list[set[str]] = [{name} for name in names]
    for model, own in needed.items():
        joined = [group for group in groups if group & {model, *own}]
        groups = [group for group in groups if group not in joined] + [set().union(*joined)]
    return sorted(tuple(sorted(group)) for group in groups)


def dollars(amount: float) -> Decimal:
    """Return an amount rounded to cents."""
    return Decimal(amount).quantize(Decimal("0.01"))
