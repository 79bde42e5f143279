"""Read and write the tuned values of a model in a stack file, `triton-eks:models.serving.<model>`.

The rest of the file stays unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from ruamel.yaml.comments import CommentedMap
from tritonclient.grpc.model_config_pb2 import ModelConfig

from modelctl.release.commented_yaml import set_key
from modelctl.release.pin import KEY, edit, save, section
from modelctl.release.stacks import Stack, read_stack, stack_name
from modelctl.repository.configure import ConfigureError, Facts, configure
from modelctl.repository.model import Model
from modelctl.tune.candidate import Candidate
from modelctl.tune.errors import TuneError
from spec.settings import ModelServing
from spec.stack_editor import StackEditor


def check_slo(file: Path, name: str, slo_p95_ms: float, slo_p99_ms: float | None = None) -> None:
    """Refuse an SLO that differs from the stack's, because the values would not fit the stack."""
    wants = _stack_of(file, name).serving[name]
    if wants.slo_p95_ms != slo_p95_ms:
        raise TuneError(
            f"{file}: config.{KEY}.serving.{name}.sloP95Ms is {wants.slo_p95_ms}, and --slo-p95-ms {slo_p95_ms:g}; "
            "tune for the SLO that the stack has"
        )
    if wants.slo_p99_ms != slo_p99_ms:
        there = "has none" if wants.slo_p99_ms is None else f"is {wants.slo_p99_ms}"
        given = "there is no --slo-p99-ms" if slo_p99_ms is None else f"--slo-p99-ms {slo_p99_ms:g}"
        raise TuneError(
            f"{file}: config.{KEY}.serving.{name}.sloP99Ms {there}, and {given}; tune for the SLOs that the stack has"
        )


def wanted(file: Path, model: Model) -> Callable[[Candidate], ModelConfig]:
    """Return the function that makes a candidate's config as a release would for the stack.

    Raises TuneError unless the file is right and has settings for the model. This is checked before any measurement, because
    an error an hour later would waste the run.
    """
    stack = _stack_of(file, model.name)
    wants = stack.serving[model.name]
    facts = Facts(stack.compute_capabilities, stack.server, model.versions, model.files_of_every_version)

    def configured(candidate: Candidate) -> ModelConfig:
        try:
            config = configure(model.config, _with(wants, candidate), facts)
        except ConfigureError as error:
            raise TuneError("\n".join(f"{file}: models.serving.{model.name}.{text}" for text in error.problems)) from None
        config.name = model.name
        return config

    configured(Candidate(min(model.config.max_batch_size, 1), 0, 1))
    return configured


def gpu_memory_mib(file: Path, models: Iterable[str]) -> dict[str, int]:
    """Return the GPU memory in MiB that the stack plans for an instance of each model."""
    counted = {name: _stack_of(file, name).serving[name].gpu_memory_mib for name in models}
    return {name: mib for name, mib in counted.items() if mib is not None}


def _stack_of(file: Path, model: str) -> Stack:
    if stack_name(file) is None:
        raise TuneError(f"{file}: is no stack file by its name; a stack file is named Pulumi.<stack>.yaml")
    stack, problems = read_stack(file)
    if problems:
        raise TuneError("\n".join(map(str, problems)))
    if stack is None or model not in stack.serving:
        raise TuneError(_no_entry(file, model))
    return stack


def _with(wants: ModelServing, candidate: Candidate) -> ModelServing:
    """Return the settings with the candidate's values, without parts that cannot be measured on a dedicated server.

    All requests of a load are identical, so a response cache would answer them. Resources of the rate limiter are shared
    with models that are not loaded. The tuned server may be older than the metric of the histogram.
    """
    largest = candidate.max_batch_size
    return wants.model_copy(
        update={
            "max_batch_size": largest or None,
            "max_queue_delay_us": candidate.max_queue_delay_us if largest else None,
            "instances": candidate.instances,
            "warmup": None if wants.warmup is None else tuple(size for size in wants.warmup if size <= max(largest, 1)),
            "response_cache": False,
            "rate_limiter": None,
            "latency_histogram": False,
        }
    )


def write(file: Path, model: str, candidate: Candidate, evidence: str) -> list[str]:
    """Write the values and the path of their evidence; return the changes, a line each.

    Raises PinError when the file cannot be read or replaced, and TuneError when it has no entry for the model.
    """
    editor, entry = _entry(file, model)
    said = []
    changes: dict[tuple[str, ...], int | str] = {}
    for key, value in values(candidate, evidence).items():
        before = entry.get(key)
        if before != value:
            said.append(f"{model}.{key} {'none' if before is None else before} → {value}")
            changes[(editor.key(KEY), "serving", model, key)] = value
            set_key(entry, key, value)
    if changes:
        save(editor, changes)
    return said


def write_batch(file: Path, ensemble: str, largest: int) -> list[str]:
    """Write the largest batch of an ensemble, which all its steps must support. Return the changes, a line each.

    An ensemble without an entry in the stack stays unchanged; a release reports if its batch does not fit.
    """
    editor = edit(file)
    models = section(editor)
    entry = models.get("serving", {}).get(ensemble) if models else None
    if not isinstance(entry, CommentedMap) or entry.get("maxBatchSize") == largest:
        return []
    before = entry.get("maxBatchSize")
    set_key(entry, "maxBatchSize", largest)
    save(editor, {(editor.key(KEY), "serving", ensemble, "maxBatchSize"): largest})
    return [f"{ensemble}.maxBatchSize {'none' if before is None else before} → {largest}"]


def values(candidate: Candidate, evidence: str) -> dict[str, int | str]:
    """Return the values under the stack's key names. A model without a batch dimension has only instances."""
    if not candidate.max_batch_size:
        return {"instances": candidate.instances, "tuned": evidence}
    return {
        "maxBatchSize": candidate.max_batch_size,
        "maxQueueDelayUs": candidate.max_queue_delay_us,
        "instances": candidate.instances,
        "tuned": evidence,
    }


def _entry(file: Path, model: str) -> tuple[StackEditor, CommentedMap]:
    editor = edit(file)
    models = section(editor)
    serving = models.get("serving") if models else None
    entry = serving.get(model) if isinstance(serving, CommentedMap) else None
    if not isinstance(entry, CommentedMap):
        raise TuneError(_no_entry(file, model))
    return editor, entry


def _no_entry(file: Path, model: str) -> str:
    return (
        f"{file}: config.{KEY}.serving has no {model}; say first what the stack wants of it: device, sloP95Ms, "
        "expectedRate and peakRate"
    )
