"""The tuned values of a model in a stack file, `triton-eks:models.serving.<model>`, with everything else left as it is."""

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
    """Refuse another SLO than the stack has for the model: with that it would not be the stack's values."""
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
    """Return how the stack would serve a candidate: the config that a release would make for it.

    Raises TuneError unless the file is right and says what it wants of the model. That is looked at before anything is
    measured: an hour later nobody wants to hear that the file has no such model.
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
    """Return what the stack counts for an instance of each of the models that it has on a GPU."""
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
    """Return the wants with the candidate's values, without what would not be measured or a server of its own may not have.

    All requests of a load are alike, so a response cache would answer them; resources of the rate limiter are shared with
    models that are not there; the tuned server may be older than the metric of the histogram.
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
    """Write the values and where their evidence is; return what changed, a line each.

    Raises PinError when the file cannot be read or replaced, TuneError when it has no entry of the model.
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
    """Write the largest batch of an ensemble, which none of its steps may be below; return what changed, a line each.

    An ensemble that the stack has no entry for stays: a release says that its batch does not fit.
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
    """In the stack's words. A model without a batch dimension has instances only."""
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
