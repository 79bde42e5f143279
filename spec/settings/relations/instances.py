"""Default instances for models whose entries in `models.serving` have none, as `modelctl release` derives them."""

from collections.abc import Iterable

from spec.settings.model import Settings
from spec.settings.relations.gpu_memory import misfits
from spec.settings.relations.subject import Subject
from spec.settings.relations.triton import starved
from spec.settings.release import Release
from spec.settings.serving import ModelServing

INSTANCES_PER_GPU = 2
"""With a single instance, a bounded queue can stall a request (docs/serving.md#known-limits-of-the-server)."""


def derive_instances(settings: Settings, release: Release, models: Iterable[str]) -> dict[str, int]:
    """Return the models of `models` that get two instances: the smallest first, as long as no rule refuses the stack.

    `release` is the release to derive them for, with its versions. Only GPU models with a dynamic batcher get two. Sequences
    have their own slots, and engines of language models accept all requests at once.
    """
    serving = settings.models.serving
    candidates = [name for name in models if _may_have_two(serving[name])]
    derived: dict[str, int] = {}
    memory = {name: serving[name].gpu_memory_mib or release.gpu_memory_mib.get(name, 0) for name in candidates}
    for name in sorted(candidates, key=lambda name: (memory[name], name)):
        attempt = {**derived, name: INSTANCES_PER_GPU}
        if not _refusals(settings, release.model_copy(update={"instances": attempt})):
            derived = attempt
    return derived


def _may_have_two(entry: ModelServing) -> bool:
    batched = entry.sequence is None and entry.llm is None
    return entry.instances is None and entry.device == "gpu" and batched


def _refusals(settings: Settings, release: Release) -> bool:
    models = settings.models.model_copy(update={"release": release})
    subject = Subject(settings.model_copy(update={"models": models}), settings.stack, settings.today)
    return bool(misfits(subject) or starved(subject))
