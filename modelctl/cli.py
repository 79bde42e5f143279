"""The commands; exit codes are those of `modelctl.command_line`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.filesize import decimal

from modelctl.command_line import Bucket, Endpoint, Json, failures, print_json, stderr, stdout, table
from modelctl.release import catalog
from modelctl.release.pin import pin as pin_release
from modelctl.release.pin import required_stack_files
from modelctl.release.progress import observer
from modelctl.release.promote import promote
from modelctl.release.publish import prepare, publish
from modelctl.release.retire import refuse_retired, restore
from modelctl.release.retire import retire as retire_release
from modelctl.release.rollback import rollback
from modelctl.release.verify import verify as verify_release
from modelctl.rollout.command import parity, rollout
from modelctl.store.bucket import open_store
from modelctl.store.manifest import Manifest, ModelEntry
from modelctl.tune.command import tune

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Models: released immutably, pinned in a stack, tuned, rolled out, rolled back.",
)

ReleaseIdArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of a release, 12 hex digits.")]


@app.command()
def release(
    models_dir: Annotated[Path, typer.Argument(help="The model repository: a directory per model.")],
    bucket: Bucket,
    endpoint_url: Endpoint = None,
    stacks: Annotated[
        Path | None,
        typer.Option(help="Directory of the stack files to make configs for.", show_default="beside MODELS_DIR"),
    ] = None,
    pin: Annotated[Path | None, typer.Option(metavar="FILE", help="Stack file to pin the release in.")] = None,
) -> None:
    """Validate MODELS_DIR, make each stack's configs, upload all as an immutable release, and say its id."""
    with failures():
        store = open_store(bucket, endpoint_url)
        if stacks is not None:
            required_stack_files(stacks)
        with observer(stderr()) as watch:
            plan = prepare(models_dir, store.part_bytes, watch, stacks or _stacks_beside(models_dir))
            published = publish(plan, store, watch)
        manifest = published.manifest
        if published.already_released:
            typer.echo(f"{manifest.id} already released on {manifest.created:%Y-%m-%d %H:%M:%S} UTC")
        else:
            sent = f"{published.uploaded} objects uploaded, {published.reused} found"
            typer.echo(f"{manifest.id} released: {decimal(manifest.bytes)}, {sent}")
        typer.echo("models: " + ", ".join(f"{name} {_versions(entry)}" for name, entry in manifest.models.items()))
        if manifest.serving:
            typer.echo("configs made for the stacks: " + ", ".join(manifest.serving))
        elif stacks is None and not _stacks_beside(models_dir).is_dir():
            typer.echo(
                f"no configs made for stacks: there is no directory stacks beside {models_dir}; --stacks names another"
            )
        if pin is not None:
            _pin(pin, manifest)


@app.command(name="list")
def list_(bucket: Bucket, endpoint_url: Endpoint = None, as_json: Json = False) -> None:
    """List the releases in the bucket, oldest first, unfinished ones too."""
    with failures():
        listed = catalog.releases(open_store(bucket, endpoint_url))
        if as_json:
            print_json([{**asdict(entry), "created": entry.created.isoformat()} for entry in listed])
            return
        if not listed:
            typer.echo(f"no releases in s3://{bucket}")
            return
        rows = table("id", "created (UTC)", "size", "objects", "state", "models")
        for entry in listed:
            models = ", ".join(f"{name} {version}" for name, version in entry.models.items())
            created = f"{entry.created:%Y-%m-%d %H:%M:%S}"
            rows.add_row(entry.id, created, decimal(entry.bytes), str(entry.objects), str(entry.state), models)
        stdout().print(rows)


@app.command()
def show(release_id: ReleaseIdArgument, bucket: Bucket, endpoint_url: Endpoint = None, as_json: Json = False) -> None:
    """Show the models and objects of a release."""
    with failures():
        manifest = catalog.finished(open_store(bucket, endpoint_url), release_id)
        if as_json:
            typer.echo(manifest.to_json(), nl=False)
            return
        typer.echo(f"{manifest.id}  {manifest.created:%Y-%m-%d %H:%M:%S} UTC  {decimal(manifest.bytes)}")
        models = table("model", "version", "backend")
        for name, model in manifest.models.items():
            models.add_row(name, _versions(model), model.backend)
        objects = table("object", "bytes", "sha-256")
        for key, entry in manifest.objects.items():
            objects.add_row(key, str(entry.bytes), entry.sha256)
        stdout().print(models, "", objects)


@app.command()
def verify(release_id: ReleaseIdArgument, bucket: Bucket, endpoint_url: Endpoint = None, as_json: Json = False) -> None:
    """Read every object of a release back and compare it with the manifest."""
    with failures():
        store = open_store(bucket, endpoint_url)
        with observer(stderr()) as watch:
            report = verify_release(catalog.finished(store, release_id), store, watch)
        if as_json:
            print_json({**asdict(report), "ok": report.ok})
        else:
            for key in report.missing:
                typer.echo(f"missing: {key}")
            for key in report.extra:
                typer.echo(f"extra:   {key}")
            for key, difference in report.changed.items():
                typer.echo(f"changed: {key}: {difference}")
            wrong = len(report.missing) + len(report.extra) + len(report.changed)
            verdict = "all as released" if report.ok else f"{wrong} differences"
            typer.echo(f"{report.id}: {report.objects} objects, {verdict}")
        if not report.ok:
            raise typer.Exit(1)


@app.command()
def pin(
    release_id: ReleaseIdArgument,
    bucket: Bucket,
    file: Annotated[Path, typer.Option(help="Stack file, for example stacks/Pulumi.dev.yaml.")],
    endpoint_url: Endpoint = None,
) -> None:
    """Write a finished release into a stack file; the next `pulumi up` rolls it out."""
    with failures():
        store = open_store(bucket, endpoint_url)
        manifest = catalog.finished(store, release_id)
        refuse_retired(manifest, store)
        _pin(file, manifest)


@app.command()
def retire(
    release_id: ReleaseIdArgument,
    bucket: Bucket,
    endpoint_url: Endpoint = None,
    stacks: Annotated[Path, typer.Option(help="Directory of the stack files; none may pin it.")] = Path("stacks"),
    undo: Annotated[bool, typer.Option("--undo", help="Keep the release after all.")] = False,
) -> None:
    """Let S3 remove a release that no stack pins, by tagging its objects retired=true."""
    with failures():
        store = open_store(bucket, endpoint_url)
        manifest = catalog.finished(store, release_id)
        if undo:
            tagged = restore(manifest, store)
            typer.echo(f"{manifest.id} not retired: {tagged.changed} tags removed, {tagged.unchanged} objects had none")
        else:
            tagged = retire_release(manifest, store, stacks)
            typer.echo(f"{manifest.id} retired: {tagged.changed} objects tagged, {tagged.unchanged} were before")


for command in (promote, rollback, rollout, parity, tune):
    app.command()(command)


def _versions(model: ModelEntry) -> str:
    return ", ".join(map(str, (*model.others, model.version)))


def _stacks_beside(models_dir: Path) -> Path:
    # The parent of `.` or `..` is not the empty path's.
    return (models_dir if models_dir.name not in ("", "..") else models_dir.resolve()).parent / "stacks"


def _pin(file: Path, manifest: Manifest) -> None:
    changes = pin_release(file, manifest)
    for change in changes:
        typer.echo(f"{file}: {change}")
    if not changes:
        typer.echo(f"{file}: pins {manifest.id} already")
