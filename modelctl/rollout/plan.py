"""Plan the changes from one release in `live/` to another, and collect all reasons against them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tritonclient.grpc.model_config_pb2 import ModelConfig

from modelctl.repository import golden
from modelctl.repository.configure import warmup
from modelctl.repository.golden import Golden, GoldenError
from modelctl.rollout import configs
from modelctl.store.bucket import Store
from modelctl.store.journal import Change
from modelctl.store.manifest import Manifest, ObjectEntry
from spec.failure import Failure

_ROLLING = "set triton.rollout: rolling, or release it under another model name"


class Refused(Failure):
    """The release cannot be rolled out; `reasons` has all reasons, a sentence each."""

    def __init__(self, reasons: list[str]) -> None:
        self.reasons = reasons
        count = f"{len(reasons)} reason{'s' if len(reasons) > 1 else ''}"
        super().__init__("\n".join([f"not rolled out, for {count}:", *reasons]))


@dataclass(frozen=True)
class StackRelease:
    """A release as a stack serves it: its manifest, with each model's config for that stack."""

    manifest: Manifest
    stack: str
    store: Store

    def config(self, model: str) -> ModelConfig:
        """Return the config of a model for this stack. Raises StoreError."""
        return configs.parse(self._text(configs.config_key(self.manifest, model, self.stack)))

    def golden(self, model: str) -> Golden | None:
        """Return the golden inference of the served version; None without one. Raises GoldenError and StoreError."""
        key = f"{model}/{self.manifest.models[model].version}/{golden.FILE}"
        return Golden.parse(key, self._text(key)) if key in self.manifest.objects else None

    def tolerance(self, model: str) -> float:
        """Return the numeric tolerance of the model's golden inference; 0 without one. Raises GoldenError and StoreError."""
        found = self.golden(model)
        return found.tolerance if found is not None else 0.0

    def version_files(self, model: str) -> dict[str, ObjectEntry]:
        """Return the objects of the version, by key."""
        return self._below(f"{model}/{self.manifest.models[model].version}/")

    def shared_files(self, model: str) -> dict[str, ObjectEntry]:
        """Return the files that all versions of the model share: labels, warm-up data. The configs are left out, since a
        rollout writes them."""
        own = self.version_files(model)
        configs_ = (f"{model}/config.pbtxt", f"{model}/configs/")
        return {key: o for key, o in self._below(f"{model}/").items() if key not in own and not key.startswith(configs_)}

    def python_sources(self) -> Iterator[tuple[str, str]]:
        """Yield the key and the text of every Python file of the release."""
        for key in self.manifest.objects:
            if key.endswith(".py"):
                yield key, self._text(key)

    def _below(self, prefix: str) -> dict[str, ObjectEntry]:
        return {key: entry for key, entry in self.manifest.objects.items() if key.startswith(prefix)}

    def _text(self, key: str) -> str:
        return b"".join(self.store.chunks(self.manifest.id, key)).decode("utf-8", errors="replace")


def changes(old: StackRelease, new: StackRelease, *, needs_golden: bool = True) -> tuple[Change, ...]:
    """Return the changes by model. Raises Refused with all reasons, and StoreError.

    `needs_golden`: False for a rollback, since a version that has served before needs no golden inference.
    """
    before, after = old.manifest.versions, new.manifest.versions
    reasons = [
        f"{model}: release {new.manifest.id} serves {', '.join(map(str, others))} beside version {after[model]}, and a "
        f"rollout in place replaces one version by one other: {_ROLLING}"
        for model, others in new.manifest.others.items()
    ]
    reasons += [
        f"{model}: release {new.manifest.id} does not have it any more, and clients may still ask for it: "
        "set triton.rollout: rolling"
        for model in sorted(set(before) - set(after))
    ]
    changed = []
    for model, version in after.items():
        if model not in before:
            changed.append(Change(model=model, old=None, new=version))
        elif before[model] != version:
            changed.append(Change(model=model, old=before[model], new=version))
            reasons += _unfit_successor(model, old, new)
        else:
            reasons += _changed_in_place(model, old, new)
    for change in changed:
        reasons += _unfit(change.model, new, needs_golden=needs_golden)
    reasons += _callers({change.model for change in changed if change.old is not None}, old, new)
    if reasons:
        raise Refused(reasons)
    return tuple(changed)


def difference(model: str, old: StackRelease, new: StackRelease) -> str | None:
    """Return how a model differs between two releases: the first different file, or its config. None when it does not.

    Raises StoreError.
    """
    files = {**old.version_files(model), **old.shared_files(model)}
    others = {**new.version_files(model), **new.shared_files(model)}
    different = sorted(key for key in {*files, *others} if files.get(key) != others.get(key))
    if not different and old.config(model) == new.config(model):
        return None
    return different[0] if different else "its config"


def _changed_in_place(model: str, old: StackRelease, new: StackRelease) -> Iterator[str]:
    version = new.manifest.models[model].version
    what = difference(model, old, new)
    if what is None:
        return
    yield (
        f"{model}: version {version} is served with other content ({what}), and a client could not tell the two "
        f"apart: give the new content the version {version + 1}"
    )


def _unfit_successor(model: str, old: StackRelease, new: StackRelease) -> Iterator[str]:
    if old.manifest.models[model].backend == "ensemble" or new.manifest.models[model].backend == "ensemble":
        yield (
            f"{model}: is an ensemble, and an ensemble has one config for all its versions, so that the served one would "
            f"change pod by pod: {_ROLLING}"
        )
        return
    if fields := configs.interface_differences(old.config(model), new.config(model)):
        yield (
            f"{model}: its config differs in {', '.join(fields)}, and a model has one config for all its versions, so "
            f"that the served one would be loaded with it: {_ROLLING}"
        )
    files, others = (_without_samples(model, release.shared_files(model)) for release in (old, new))
    if different := sorted(key for key in {*files, *others} if files.get(key) != others.get(key)):
        yield f"{model}: {different[0]} is shared by all its versions and differs: put it into the version's directory"


def _without_samples(model: str, files: Mapping[str, ObjectEntry]) -> dict[str, ObjectEntry]:
    """Return the files without generated warm-up requests. Their names contain their hash, so they never change."""
    samples = f"{model}/{warmup.FOLDER}/{warmup.FROM_GOLDEN}"
    return {key: entry for key, entry in files.items() if not key.startswith(samples)}


def _unfit(model: str, new: StackRelease, *, needs_golden: bool) -> Iterator[str]:
    if why := configs.keeps_state(new.config(model)):
        yield f"{model}: {why}: {_ROLLING}"
        return
    yield from unproven(model, new, needs_golden=needs_golden)


def unproven(model: str, new: StackRelease, *, needs_golden: bool = True) -> Iterator[str]:
    """Yield why the answers of a model cannot be checked: its golden inference is wrong or missing."""
    version = new.manifest.models[model].version
    try:
        found = new.golden(model)
    except GoldenError as error:
        yield f"{model}: {error}"
        return
    if found is None and needs_golden:
        yield (
            f"{model}: version {version} has no {golden.FILE}, so that nothing would tell a wrong model from a right one: "
            f"add models/{model}/{version}/{golden.FILE} and release again"
        )


def without_slo(models: Iterable[str], slo_p95_ms: Mapping[str, float], stack: str) -> list[str]:
    """Return a message for each model without an SLO: its canary cannot be judged."""
    return [
        f"{model}: a canary is judged by its SLO: give it models.serving.{model}.sloP95Ms in the stack {stack}"
        for model in models
        if model not in slo_p95_ms
    ]


def _callers(changed: set[str], old: StackRelease, new: StackRelease) -> Iterator[str]:
    """Yield the models that call a changed model inside the server. Their answers would change pod by pod.

    BLS calls are found only in the source text: a Python file that uses InferenceRequest and contains a changed model's
    name.
    """
    for model, entry in new.manifest.models.items():
        if entry.backend != "ensemble":
            continue
        both = configs.used_models(new.config(model))
        if model in old.manifest.models and old.manifest.models[model].backend == "ensemble":
            both |= configs.used_models(old.config(model))
        for used in sorted(both & changed):
            yield (
                f"{used}: the ensemble {model} calls it, and an ensemble has one config for all its versions, so that "
                f"its answers would change pod by pod: {_ROLLING}"
            )
    if not changed:
        return
    for key, text in new.python_sources():
        for used in sorted(_called_by(text) & changed - {key.partition("/")[0]}):
            yield (f"{used}: {key} calls it inside the server, and its answers would change pod by pod: {_ROLLING}")


def _called_by(source: str) -> set[str]:
    if "InferenceRequest" not in source:
        return set()
    try:
        tree = ast.parse(source)
    except SyntaxError:  # the backend reports it; the calls cannot be read
        return set()
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
