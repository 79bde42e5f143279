"""The command line. Exit codes: 0 done; 1 the models or the release are wrong; 2 it could not be tried."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from modelctl import catalog
from modelctl.catalog import UnknownRelease
from modelctl.manifest import Manifest, ManifestError
from modelctl.pin import PinError
from modelctl.pin import pin as pin_release
from modelctl.problems import ValidationFailed
from modelctl.progress import observer
from modelctl.release import prepare, publish
from modelctl.retire import RetirementError, refuse_retired, restore
from modelctl.retire import retire as retire_release
from modelctl.store import open_store
from modelctl.store_errors import StoreError
from modelctl.verify import verify as verify_release

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Releases of models: validated, immutable, verified, pinned in a stack.",
)

Bucket = Annotated[str, typer.Option(help="The stack's models bucket.")]
Endpoint = Annotated[str | None, typer.Option("--endpoint-url", help="URL of an S3-compatible store instead of AWS.")]
ReleaseIdArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of a release, 12 hex digits.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]

_PLAIN_WIDTH = 200


@app.command()
def release(
    models_dir: Annotated[Path, typer.Argument(help="The model repository: a directory per model.")],
    bucket: Bucket,
    endpoint_url: Endpoint = None,
    pin: Annotated[Path | None, typer.Option(metavar="FILE", help="Stack file to pin the release in.")] = None,
) -> None:
    """Validate MODELS_DIR, upload it as an immutable release, and say its id."""
    with _failures():
        store = open_store(bucket, endpoint_url)
        with observer(_stderr()) as watch:
            published = publish(prepare(models_dir, store.part_bytes, watch), store, watch)
        manifest = published.manifest
        if published.already_released:
            typer.echo(f"{manifest.id} already released on {manifest.created:%Y-%m-%d %H:%M:%S} UTC")
        else:
            sent = f"{published.uploaded} objects uploaded, {published.reused} found"
            typer.echo(f"{manifest.id} released: {decimal(manifest.bytes)}, {sent}")
        typer.echo("models: " + ", ".join(f"{name} {version}" for name, version in manifest.versions.items()))
        if pin is not None:
            _pin(pin, manifest)


@app.command(name="list")
def list_(bucket: Bucket, endpoint_url: Endpoint = None, as_json: Json = False) -> None:
    """List the releases in the bucket, oldest first, unfinished ones too."""
    with _failures():
        listed = catalog.releases(open_store(bucket, endpoint_url))
        if as_json:
            _print_json([{**asdict(entry), "created": entry.created.isoformat()} for entry in listed])
            return
        if not listed:
            typer.echo(f"no releases in s3://{bucket}")
            return
        table = _table("id", "created (UTC)", "size", "objects", "state", "models")
        for entry in listed:
            models = ", ".join(f"{name} {version}" for name, version in entry.models.items())
            created = f"{entry.created:%Y-%m-%d %H:%M:%S}"
            table.add_row(entry.id, created, decimal(entry.bytes), str(entry.objects), str(entry.state), models)
        _stdout().print(table)


@app.command()
def show(release_id: ReleaseIdArgument, bucket: Bucket, endpoint_url: Endpoint = None, as_json: Json = False) -> None:
    """Show the models and objects of a release."""
    with _failures():
        manifest = catalog.finished(open_store(bucket, endpoint_url), release_id)
        if as_json:
            typer.echo(manifest.to_json(), nl=False)
            return
        typer.echo(f"{manifest.id}  {manifest.created:%Y-%m-%d %H:%M:%S} UTC  {decimal(manifest.bytes)}")
        models = _table("model", "version", "backend")
        for name, model in manifest.models.items():
            models.add_row(name, str(model.version), model.backend)
        objects = _table("object", "bytes", "sha-256")
        for key, entry in manifest.objects.items():
            objects.add_row(key, str(entry.bytes), entry.sha256)
        _stdout().print(models, "", objects)


@app.command()
def verify(release_id: ReleaseIdArgument, bucket: Bucket, endpoint_url: Endpoint = None, as_json: Json = False) -> None:
    """Read every object of a release back and compare it with the manifest."""
    with _failures():
        store = open_store(bucket, endpoint_url)
        with observer(_stderr()) as watch:
            report = verify_release(catalog.finished(store, release_id), store, watch)
        if as_json:
            _print_json({**asdict(report), "ok": report.ok})
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
    with _failures():
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
    with _failures():
        store = open_store(bucket, endpoint_url)
        manifest = catalog.finished(store, release_id)
        if undo:
            tagged = restore(manifest, store)
            typer.echo(f"{manifest.id} not retired: {tagged.changed} tags removed, {tagged.unchanged} objects had none")
        else:
            tagged = retire_release(manifest, store, stacks)
            typer.echo(f"{manifest.id} retired: {tagged.changed} objects tagged, {tagged.unchanged} were before")


def _pin(file: Path, manifest: Manifest) -> None:
    changes = pin_release(file, manifest)
    for change in changes:
        typer.echo(f"{file}: {change}")
    if not changes:
        typer.echo(f"{file}: pins {manifest.id} already")


@contextmanager
def _failures() -> Iterator[None]:
    """Every expected failure as a sentence on standard error and an exit code, never a traceback."""
    try:
        yield
    except ValidationFailed as failure:
        for problem in failure.problems:
            typer.echo(str(problem), err=True)
        count = len(failure.problems)
        typer.echo(f"not released: {count} problem{'s' if count > 1 else ''}", err=True)
        raise typer.Exit(1) from None
    except (UnknownRelease, ManifestError, RetirementError) as failure:
        _fail(str(failure), 1)
    except (StoreError, PinError) as failure:
        _fail(str(failure), 2)
    except OSError as failure:
        _fail(f"{failure.filename or 'a file'}: {failure.strerror or failure}", 2)
    except KeyboardInterrupt:
        _fail("interrupted; run the same command again, it continues", 130)


def _fail(sentence: str, code: int) -> None:
    typer.echo(f"modelctl: {sentence}", err=True)
    raise typer.Exit(code) from None


def _stdout() -> Console:
    return Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH, highlight=False, markup=False)


def _stderr() -> Console:
    return Console(stderr=True, highlight=False)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        numeric = column in {"size", "objects", "bytes", "version"}
        table.add_column(column, justify="right" if numeric else "left", no_wrap=True)
    return table


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2))
