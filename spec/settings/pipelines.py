"""Settings of the steps of a pipeline. A pipeline is an ensemble or a model that calls others.

A pipeline needs one entry in `triton-eks:models.serving`. A step without an entry has the pipeline's latency and load.
"""

from collections.abc import Collection, Mapping, Sequence

from spec.settings.release import Release
from spec.settings.section import Absent
from spec.settings.serving import ModelServing

Needed = Mapping[str, tuple[str, ...]]


class StepServing(ModelServing):
    """The derived entry of a step that the stack file does not list."""


def needed_by(release: Release) -> Needed:
    """Return, by model, the other models that its server needs: the steps of an ensemble and the models that it calls."""
    by = (release.ensembles, release.asks)
    names = dict.fromkeys(name for one in by for name in one)
    return {name: tuple(dict.fromkeys(other for one in by for other in one.get(name, ()))) for name in names}


def steps_without_entry(
    pipeline: str, needed: Needed, entries: Collection[str], self_placed: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the steps of a pipeline that use its entry, each once. Nested pipelines add their steps.

    A model that places itself on GPUs uses no pipeline's entry, because only its own settings describe its GPU use.
    """
    found: dict[str, None] = {}
    waiting = list(needed.get(pipeline, ()))
    while waiting:
        step = waiting.pop(0)
        if step not in found and step not in entries and step not in self_placed:
            found[step] = None
            waiting += needed.get(step, ())
    return tuple(found)


def with_steps(entries: Mapping[str, ModelServing], release: Release) -> dict[str, ModelServing]:
    """Return the entries of a stack file, with derived entries for steps that it does not list.

    The pipeline's `device` says where its steps compute. Ensembles, and models that always compute on the CPU
    (`release.on_cpu`), get `cpu`.
    """
    written = {name: entry for name, entry in entries.items() if not isinstance(entry, StepServing)}
    needed = needed_by(release)
    followers = {name: steps_without_entry(name, needed, written, release.self_placed) for name in written}
    on_cpu = {*release.ensembles, *release.on_cpu}
    pipelines: dict[str, list[ModelServing]] = {}
    for name, steps in followers.items():
        for step in steps:
            pipelines.setdefault(step, []).append(written[name])
    complete = {
        name: entry.model_copy(update={"device": "cpu"}) if followers[name] and name in on_cpu else entry
        for name, entry in written.items()
    }
    derived = {
        step: _derived(of, on_cpu=step in on_cpu, decoupled=step in release.decoupled) for step, of in pipelines.items()
    }
    return {**complete, **derived}


def _derived(pipelines: Sequence[ModelServing], *, on_cpu: bool, decoupled: bool) -> StepServing:
    """Return the settings of a step: the tightest SLO of its pipelines and the sum of their requests."""
    try:
        slowest = [pipeline.slo_p99_ms for pipeline in pipelines if pipeline.slo_p99_ms is not None]
        return StepServing.model_construct(
            device="gpu" if not on_cpu and any(pipeline.device == "gpu" for pipeline in pipelines) else "cpu",
            slo_p95_ms=min(pipeline.slo_p95_ms for pipeline in pipelines),
            slo_p99_ms=min(slowest, default=None),
            expected_rate=sum(pipeline.expected_rate for pipeline in pipelines),
            peak_rate=sum(pipeline.peak_rate for pipeline in pipelines),
            decoupled=decoupled,
            latency_histogram=all(pipeline.latency_histogram for pipeline in pipelines),
        )
    except Absent:  # a value of a pipeline is invalid and already reported, so the derived ones are invalid too
        return StepServing.model_construct()
