"""GPU load of a fleet whose pods execute several instances on each GPU.

Executions on one GPU share it, so each takes longer the more there are. The sum of busy instances therefore exceeds the
load: it is 1.1 for a GPU that is 60 % busy with six models, and 2.6 for one that is 85 % busy. An execution finds the other
instances as busy as they are on average, so it takes `1 + others` times as long as alone (P. Schweitzer's approximation of
mean value analysis). The busy instances divided by that are the real work of the GPU.

The result is at most 4 % below the load of a simulated GPU with equal models. It is at most 10 % below if one of six models
has three quarters of the load (tests/spec/prometheus/test_gpu_load.py). Then that model's own number requests the pods.
"""

from __future__ import annotations

from collections.abc import Mapping

from spec.prometheus.rule import Rule, pods_of, record, series
from spec.settings.fleets import Fleet
from spec.settings.model import Settings
from spec.settings.relations.triton import instances_per_pod

NEEDED = "pod_model:triton_needed_instances:rate"
GPU_LOAD = "pod:triton_gpu_load:rate"


def gpu_models(stack: Settings) -> Mapping[str, int]:
    """Return the instances per pod of each model that a fleet executes on GPUs.

    `stack` is the fleet's view. The result excludes ensembles, because their steps are executed, and language models,
    because their backends accept all requests at once.
    """
    return {
        model: instances_per_pod(stack, model, wants)
        for model, wants in sorted(stack.models.serving.items())
        if wants.device == "gpu" and wants.llm is None and model not in stack.models.ensembles
    }


def shares_gpus(stack: Settings) -> bool:
    """Return whether a GPU of a fleet's pods executes several instances, of one model or of several."""
    return sum(gpu_models(stack).values()) > stack.triton.gpus


def gpu_load_rules(settings: Settings) -> list[Rule]:
    """Return a rule for each fleet whose models share GPUs: by pod, the number of GPUs that its executions keep busy."""
    return [record(GPU_LOAD, _load(fleet)) for fleet in settings.each_fleet if shares_gpus(fleet.stack)]


def _load(fleet: Fleet[Settings]) -> str:
    """Return the load of each pod of a fleet.

    Instances for rejected requests do not execute. So at most all instances of a model slow down the others.
    """
    own = () if fleet.deployment is None else (pods_of([fleet.deployment]),)
    by_instances: dict[int, list[str]] = {}
    for model, instances in gpu_models(fleet.stack).items():
        by_instances.setdefault(instances, []).append(model)
    busy = {
        instances: f"clamp_max({series(NEEDED, *own, model=models)}, {instances})"
        for instances, models in by_instances.items()
    }
    every = series(NEEDED, *own, model=[model for models in by_instances.values() for model in models])
    executing = " or ".join(busy.values())
    one = " or ".join(f"{of} / {instances}" if instances > 1 else of for instances, of in busy.items())
    gpus = fleet.stack.triton.gpus
    others = f"sum by (namespace, pod) ({executing}){f' / {gpus}' if gpus > 1 else ''}"
    return f"sum by (namespace, pod) (\n  {every}\n  / (1 - ({one})\n    + on (namespace, pod) group_left () {others})\n)"
