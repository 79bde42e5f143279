"""Release a model repository: validate, hash, upload missing objects, and write the manifest last.

Running an interrupted release again resumes it. Its id follows from its content, so the same prefix is found, and existing
objects are not uploaded again. Until the manifest is written, the prefix must not be used.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from modelctl.release.progress import Observer, Silent
from modelctl.release.retire import refuse_retired, untag
from modelctl.release.stack_configs import StackConfigs, decided, stack_configs
from modelctl.release.stacks import read_stacks
from modelctl.repository.load import left_out_beside, load
from modelctl.repository.model import CONFIG_FILE, Model
from modelctl.repository.problems import ValidationFailed
from modelctl.store.bucket import Store
from modelctl.store.digest import Digest, digest
from modelctl.store.errors import StoreError
from modelctl.store.manifest import Manifest, ModelEntry, ObjectEntry


@dataclass(frozen=True)
class PlannedObject:
    """One object to upload: a file, or the bytes of a generated one."""

    source: Path | bytes
    digest: Digest


@dataclass(frozen=True)
class Plan:
    """A release that is ready for upload, by key relative to its prefix.

    `left_out`: files next to the models that are not released. `other_stacks` serve other models and have no configs in the
    release. `warnings` are for the user. `plans_of_unknown_versions` are TensorRT plans.
    """

    manifest: Manifest
    objects: dict[str, PlannedObject]
    left_out: tuple[Path, ...] = ()
    other_stacks: tuple[str, ...] = ()
    plans_of_unknown_versions: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Published:
    """The result of `publish`, in objects.

    `already_released`: the release was finished before, or by another process meanwhile.
    """

    manifest: Manifest
    already_released: bool
    uploaded: int
    reused: int


def release(models_dir: Path, store: Store, watch: Observer | None = None, stacks: Path | None = None) -> Manifest:
    """Release the repository, or return its existing release; `stacks` as in `prepare`.

    Raises ValidationFailed with all mistakes before any upload. Raises StoreError when the bucket cannot be used or has
    different content under this id. Raises RetirementError when the release was retired, and OSError when a file cannot be
    read.
    """
    watch = watch or Silent()
    return publish(prepare(models_dir, store.part_bytes, watch, stacks), store, watch).manifest


def prepare(models_dir: Path, part_bytes: int, watch: Observer, stacks: Path | None = None) -> Plan:
    """Validate the repository, generate the configs of each stack in the directory `stacks`, and hash all files.

    `stacks` None: generate no configs for stacks. Raises ValidationFailed and OSError.
    """
    models, made = _load(models_dir, stacks)
    sources = {key: source for model in models for key, source in _sources(model).items()}
    sources.update({key: text.encode() for key, text in made.texts.items()})
    sources.update(made.data)
    watch.begin("hashing", sum(_size(source) for source in sources.values()))
    objects = {key: PlannedObject(source, digest(source, part_bytes, watch.advance)) for key, source in sources.items()}
    manifest = Manifest.of(
        {key: ObjectEntry(sha256=planned.digest.sha256, bytes=planned.digest.bytes) for key, planned in objects.items()},
        {model.name: _entry(model) for model in models},
        datetime.now(UTC),
        made.digests,
        made.derived,
    )
    left_out = [model.directory / path for model in models for path in model.left_out]
    unknown = tuple(path for model in models for path in model.plans_of_unknown_versions)
    return Plan(
        manifest, objects, tuple(sorted([*left_out_beside(models_dir), *left_out])), made.others, unknown, made.warnings
    )


def publish(plan: Plan, store: Store, watch: Observer) -> Published:
    """Upload the objects that the bucket lacks, then finish the release. Raises StoreError and RetirementError."""
    release_id = plan.manifest.id
    finished = store.manifest(release_id)
    if finished is not None:
        _check_finished(finished, plan.manifest, store)
        return Published(finished, already_released=True, uploaded=0, reused=len(plan.objects))
    present = store.objects(release_id)
    if foreign := sorted(set(present) - set(plan.objects)):
        raise StoreError(
            f"{store.place}/releases/{release_id}/ holds {len(foreign)} objects that are not part of this release "
            f"(first: {foreign[0]}), and the server would load them: delete them, then run the same command again"
        )
    uploaded = 0
    watch.begin("uploading", plan.manifest.bytes)
    for key, planned in plan.objects.items():
        if key in present and store.holds(release_id, key, planned.digest):
            untag(store, release_id, key)  # the object is from a removed release, and S3 would remove it too
            watch.advance(planned.digest.bytes)
            watch.finished(key, planned.digest.bytes, "found")
            continue
        store.upload(release_id, key, planned.source, planned.digest, watch.advance)
        watch.finished(key, planned.digest.bytes, "uploaded")
        uploaded += 1
    if not store.write_manifest(plan.manifest):  # another process released the same content meanwhile
        finished = store.manifest(release_id)
        if finished is None:
            raise StoreError(f"{store.place}/releases/{release_id}/ is being finished by someone else; run it again")
        _check_finished(finished, plan.manifest, store)
        return Published(finished, already_released=True, uploaded=uploaded, reused=len(plan.objects) - uploaded)
    return Published(plan.manifest, already_released=False, uploaded=uploaded, reused=len(plan.objects) - uploaded)


def _check_finished(finished: Manifest, wanted: Manifest, store: Store) -> None:
    """Refuse a finished release that has other content, lacks objects or is retired.

    Raises StoreError and RetirementError.
    """
    if finished.objects != wanted.objects:
        raise StoreError(f"{store.place} has a release {wanted.id} with other content; run `modelctl verify {wanted.id}`")
    present = store.objects(wanted.id)
    damaged = [key for key, o in finished.objects.items() if key not in present or present[key].bytes != o.bytes]
    if damaged:
        raise StoreError(
            f"release {wanted.id} is finished in {store.place}, but {len(damaged)} of its objects are missing or have "
            f"another size (first: {damaged[0]}); run `modelctl verify {wanted.id}` and restore their earlier versions"
        )
    refuse_retired(finished, store)


def _load(models_dir: Path, stacks: Path | None) -> tuple[list[Model], StackConfigs]:
    """Return the models, and their configs for the stacks. Raises ValidationFailed with the mistakes in both."""
    wants, problems = read_stacks(stacks) if stacks is not None else ([], [])
    try:
        models = load(models_dir, decided(models_dir, wants))
    except ValidationFailed as failure:
        raise ValidationFailed([*failure.problems, *problems]) from None
    made = stack_configs(models, wants)
    if problems := [*problems, *made.problems]:
        raise ValidationFailed(problems)
    return models, made


def _entry(model: Model) -> ModelEntry:
    return ModelEntry(
        version=model.version,
        backend=model.backend,
        others=model.others,
        steps=model.steps,
        asks=model.asks,
        decoupled=model.decoupled,
        selfPlaced=model.self_placed,
        onCpu=model.on_cpu,
        tensorrt=model.tensorrt,
        batch=model.config.max_batch_size,
        open=model.open,
    )


def _sources(model: Model) -> dict[str, Path | bytes]:
    files: dict[str, Path | bytes] = {f"{model.name}/{path.as_posix()}": model.directory / path for path in model.files}
    return {f"{model.name}/{CONFIG_FILE}": model.config_text.encode(), **files}


def _size(source: Path | bytes) -> int:
    return source.stat().st_size if isinstance(source, Path) else len(source)
