"""Run the commands about releases: `release`, `list`, `show`, `verify`, `pin`, `promote`, `rollback`, `retire`.

Each raises Failure with the problem. After Ctrl-C, running a command again resumes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TypeVar

from rich.filesize import decimal

from console.exit_codes import DONE
from console.program import interruptible
from console.terminal import output, print_json, progress, table
from modelctl.release import catalog
from modelctl.release.pin import PinError, pin_accepted, required_stack_files, signers
from modelctl.release.progress import Bar, Lines, Observer, observer
from modelctl.release.promote import Promotion, PromotionError, bucket_of, copy_release, promotion, settings_of
from modelctl.release.publish import prepare, publish
from modelctl.release.retire import refuse_retired, restore
from modelctl.release.retire import retire as tag_as_retired
from modelctl.release.rollback import roll_back
from modelctl.release.stacks import stack_name
from modelctl.release.verify import verify as read_back
from modelctl.repository.load import validate
from modelctl.repository.problems import ValidationFailed
from modelctl.store.bucket import Store, open_store
from modelctl.store.manifest import Manifest, ModelEntry
from modelctl.store.signer import Signer
from spec.failure import FAILED, Failure
from spec.wording import one_of, printable

_Result = TypeVar("_Result")
_CONTINUES = "interrupted; run the same command again, it continues"
_RIGHT = ("size", "objects", "bytes", "version")
"""Columns of numbers."""
_MOST_LEFT_OUT = 20


def release(
    models_dir: Path,
    bucket: str,
    endpoint_url: str | None,
    *,
    stacks: Path | None,
    pin_in: Path | None,
    signer: Signer | None,
) -> None:
    """Release a repository with configs for the stacks; sign and pin it on request. Raises PinError.

    `stacks` None: use the directory `stacks` next to the models.
    """
    if not models_dir.is_dir():
        raise ValidationFailed(validate(models_dir))  # before any AWS API call
    store = open_store(bucket, endpoint_url)
    beside = _stacks_beside(models_dir)
    if stacks is not None:
        required_stack_files(stacks)
    with _watched() as watch:
        plan = prepare(models_dir, store.part_bytes, watch, stacks or beside)
        if pin_in is not None and stack_name(pin_in) in plan.other_stacks:
            known = one_of(plan.manifest.models)
            raise PinError(f"{pin_in}: models.serving names no model of {models_dir}; write there what it wants of {known}")
        published = publish(plan, store, watch)
        if signer is not None:
            signer.sign(store, plan.manifest.model_copy(update={"created": published.manifest.created}))
    for warning in plan.warnings:
        print(f"warning: {printable(warning)}")
    manifest = published.manifest
    if published.already_released:
        print(f"{manifest.id} already released on {manifest.created:%Y-%m-%d %H:%M:%S} UTC")
    else:
        sent = f"{published.uploaded} objects uploaded, {published.reused} found"
        print(f"{manifest.id} released: {decimal(manifest.bytes)}, {sent}")
    print("models: " + ", ".join(f"{name} {_versions(entry)}" for name, entry in manifest.models.items()))
    if plan.left_out:
        print(f"left out: {_first_names(plan.left_out)}")
    if plan.plans_of_unknown_versions:
        names = _first_names(plan.plans_of_unknown_versions)
        print(
            f"headers of another form, which do not say the TensorRT that built them, so that nothing compares it: {names}"
        )
    if manifest.serving:
        print("configs made for the stacks: " + ", ".join(manifest.serving))
    elif stacks is None and not beside.is_dir():
        print(f"no configs made for stacks: there is no directory stacks beside {models_dir}; --stacks names another")
    if plan.other_stacks:
        print(f"none made for stacks that serve other models: {', '.join(plan.other_stacks)}")
    if pin_in is not None:
        catalog.finished(store, manifest.id, signers(pin_in))
        _pin(pin_in, manifest)


def list_releases(bucket: str, endpoint_url: str | None, *, as_json: bool) -> None:
    """Print the releases in a bucket, oldest first."""
    listed = catalog.releases(open_store(bucket, endpoint_url))
    if as_json:
        print_json([{**asdict(entry), "created": entry.created.isoformat()} for entry in listed])
        return
    if not listed:
        print(f"no releases in s3://{bucket}")
        return
    rows = table("id", "created (UTC)", "size", "objects", "state", "models", right=_RIGHT)
    for entry in listed:
        models = ", ".join(f"{name} {version}" for name, version in entry.models.items())
        created = f"{entry.created:%Y-%m-%d %H:%M:%S}"
        rows.add_row(entry.id, created, decimal(entry.bytes), str(entry.objects), str(entry.state), models)
    output().print(rows)


def show(release_id: str, bucket: str, endpoint_url: str | None, *, as_json: bool) -> None:
    """Print the models and objects of a release."""
    manifest = catalog.finished(open_store(bucket, endpoint_url), release_id)
    if as_json:
        print(manifest.to_json(), end="")
        return
    print(f"{manifest.id}  {manifest.created:%Y-%m-%d %H:%M:%S} UTC  {decimal(manifest.bytes)}")
    models = table("model", "version", "backend", right=_RIGHT)
    for name, model in manifest.models.items():
        models.add_row(name, _versions(model), model.backend)
    objects = table("object", "bytes", "sha-256", right=_RIGHT)
    for key, entry in manifest.objects.items():
        objects.add_row(key, str(entry.bytes), entry.sha256)
    output().print(models, "", objects)


def verify(release_id: str, bucket: str, endpoint_url: str | None, *, as_json: bool) -> int:
    """Print how the objects of a release differ from its manifest. Return the exit code, FAILED if they do."""
    store = open_store(bucket, endpoint_url)
    with _watched() as watch:
        report = read_back(catalog.finished(store, release_id), store, watch)
    if as_json:
        print_json({**asdict(report), "ok": report.ok})
    else:
        for key in report.missing:
            print(f"missing: {key}")
        for key in report.extra:
            print(f"extra:   {key}")
        for key, difference in report.changed.items():
            print(f"changed: {key}: {difference}")
        wrong = len(report.missing) + len(report.extra) + len(report.changed)
        print(f"{report.id}: {report.objects} objects, {'all as released' if report.ok else f'{wrong} differences'}")
    return DONE if report.ok else FAILED


def pin(release_id: str, bucket: str, endpoint_url: str | None, file: Path) -> None:
    """Write a finished release into a stack file."""
    store = open_store(bucket, endpoint_url)
    manifest = catalog.finished(store, release_id, signers(file))
    refuse_retired(manifest, store)
    _pin(file, manifest)


def promote(
    names: Sequence[str],
    before: str,
    from_bucket: str | None,
    buckets: Sequence[str],
    endpoint_url: str | None,
    stacks: Path,
    signer: Signer | None,
) -> None:
    """Copy the pinned release of each stack from the bucket of `before` into the stack's bucket. Raises PromotionError.

    `from_bucket`: the bucket of `before`; None for the bucket that follows from its stack file. `signer` signs the copies.
    All checks run first, and a single mistake prevents all copies. A copy that fails does not stop the others.
    """
    if len(names) != len(buckets):
        raise PromotionError(
            f"{len(names)} stacks need a bucket each, and --bucket is given {len(buckets)} times; give it once for each "
            "stack, in their order"
        )
    earlier = stacks / f"Pulumi.{before}.yaml"
    with _watched() as watch:
        source = open_store(from_bucket or bucket_of(earlier), endpoint_url, region=settings_of(earlier).region)
        files = [stacks / f"Pulumi.{name}.yaml" for name in names]
        asked = [
            partial(promotion, file, earlier, source, bucket, endpoint_url, signer)
            for file, bucket in zip(files, buckets, strict=True)
        ]
        planned = _all_of(asked)
        _all_of([partial(_promoted, file, plan, source, watch) for file, plan in zip(files, planned, strict=True)])


def _promoted(file: Path, plan: Promotion | None, source: Store, watch: Observer) -> None:
    if plan is None:
        print(f"{file} pins no release: there is nothing to promote")
        return
    done = copy_release(plan, source, watch)
    how = f"{done.copied} objects copied from {source.place}, {done.found} found"
    print(f"{plan.release_id} is in {plan.target.place}: {how}")


def _all_of(steps: Sequence[Callable[[], _Result]]) -> list[_Result]:
    """Run all steps and return their results; then raise all failures together."""
    results, failures = [], []
    for step in steps:
        try:
            results.append(step())
        except Failure as failure:
            failures.append(failure)
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise PromotionError("\n".join(dict.fromkeys(map(str, failures))))
    return results


def rollback(bucket: str, endpoint_url: str | None, file: Path) -> None:
    """Pin the previous release of a stack file again."""
    done = roll_back(file, open_store(bucket, endpoint_url))
    for change in done.changes:
        print(f"{file}: {change}")
    way = "forward again, to the newer release" if done.forward else "back to release"
    print(f"{file}: {way} {done.release.id}; `pulumi up` rolls it out, another rollback returns to {done.left}")


def retire(release_id: str, bucket: str, endpoint_url: str | None, stacks: Path, *, undo: bool) -> None:
    """Tag the objects of a release as retired, or remove these tags."""
    store = open_store(bucket, endpoint_url)
    manifest = catalog.finished(store, release_id)
    with interruptible(_CONTINUES):
        tagged = restore(manifest, store) if undo else tag_as_retired(manifest, store, stacks)
    if undo:
        print(f"{manifest.id} not retired: {tagged.changed} tags removed, {tagged.unchanged} objects had none")
    else:
        print(f"{manifest.id} retired: {tagged.changed} objects tagged, {tagged.unchanged} were before")


@contextmanager
def _watched() -> Iterator[Bar | Lines]:
    """Show the progress on standard error. On an interruption, print that the command can be resumed."""
    with interruptible(_CONTINUES), observer(progress()) as watch:
        yield watch


def _versions(model: ModelEntry) -> str:
    return ", ".join(map(str, (*model.others, model.version)))


def _first_names(paths: Sequence[Path]) -> str:
    more = f" and {len(paths) - _MOST_LEFT_OUT} more" if len(paths) > _MOST_LEFT_OUT else ""
    return ", ".join(printable(str(path)) for path in paths[:_MOST_LEFT_OUT]) + more


def _stacks_beside(models_dir: Path) -> Path:
    # The parent of `.` or `..` differs from the parent of the empty path.
    return (models_dir if models_dir.name not in ("", "..") else models_dir.resolve()).parent / "stacks"


def _pin(file: Path, manifest: Manifest) -> None:
    changes = pin_accepted(file, manifest)
    for change in changes:
        print(f"{file}: {change}")
    if not changes:
        print(f"{file}: pins {manifest.id} already")
