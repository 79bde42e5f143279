"""`modelctl promote`: a release goes from one environment to the next, the very same objects under the same id."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from modelctl.command_line import Bucket, Endpoint, failures, stderr
from modelctl.release import catalog
from modelctl.release.progress import Observer, observer
from modelctl.repository.problems import Refusal
from modelctl.store.bucket import Store, open_store
from modelctl.store.digest import digest
from modelctl.store.manifest import ManifestError
from spec.settings import SettingsError, load_stack_file

_GIT_SECONDS = 60


@dataclass(frozen=True)
class Promoted:
    """What a promotion did: objects that were copied, and those that were there already."""

    copied: int
    found: int


def promote(
    stack: Annotated[str, typer.Argument(help="The environment that pins the release, like staging.")],
    before: Annotated[str, typer.Option(metavar="STACK", help="The environment that has had it, like dev.")],
    from_bucket: Annotated[str, typer.Option("--from", metavar="BUCKET", help="Models bucket of that environment.")],
    bucket: Bucket,
    endpoint_url: Endpoint = None,
    stacks: Annotated[Path, typer.Option(help="Directory of the stack files.")] = Path("stacks"),
) -> None:
    """Copy the release that STACK pins from the bucket of the environment before, which has to have had it."""
    with failures():
        file, earlier = stacks / f"Pulumi.{stack}.yaml", stacks / f"Pulumi.{before}.yaml"
        release_id = pinned(file)
        if release_id is None:
            typer.echo(f"{file} pins no release: there is nothing to promote")
            return
        refuse_unknown(release_id, file, earlier)
        with observer(stderr()) as watch:
            source, target = open_store(from_bucket, endpoint_url), open_store(bucket, endpoint_url)
            done = copy_release(release_id, source, target, watch)
        how = f"{done.copied} objects copied from s3://{from_bucket}, {done.found} found"
        typer.echo(f"{release_id} is in s3://{bucket}: {how}")


def pinned(file: Path) -> str | None:
    """The release that a stack file pins. Raises Refusal."""
    try:
        release = load_stack_file(file).models.release
    except FileNotFoundError:
        raise Refusal(f"there is no {file}; run it from the root of the checkout") from None
    except SettingsError as error:
        raise Refusal(str(error)) from None
    return release.id if release is not None else None


def refuse_unknown(release_id: str, stack: Path, before: Path) -> None:
    """Raises Refusal unless `before` pins the release, or once has: what nobody tried is not promoted."""
    if pinned(before) == release_id or _was_in(before, release_id):
        return
    raise Refusal(
        f"{stack} pins release {release_id}, which {before} has never pinned: pin it there first (`modelctl pin`) and "
        "deploy that, so that both environments serve the same objects"
    )


def copy_release(release_id: str, source: Store, target: Store, watch: Observer) -> Promoted:
    """Copies a finished release, each object checked against its hash, the manifest last.

    Killed, it is continued by the next one. Raises UnknownRelease, ManifestError, StoreError.
    """
    manifest = catalog.finished(source, release_id)
    if target.manifest(release_id) is not None:
        return Promoted(0, len(manifest.objects))
    copied = 0
    watch.begin("copying", manifest.bytes)
    with tempfile.TemporaryDirectory(prefix="modelctl-promote-") as folder:
        for key, entry in manifest.objects.items():
            file = Path(folder) / "object"
            with file.open("wb") as out:
                for piece in source.chunks(release_id, key):
                    out.write(piece)
            found = digest(file, target.part_bytes)
            if (found.sha256, found.bytes) != (entry.sha256, entry.bytes):
                raise ManifestError(f"{key} of release {release_id} in {source.place} is not what its manifest says")
            if target.holds(release_id, key, found):
                watch.advance(entry.bytes)
                continue
            target.upload(release_id, key, file, found, watch.advance)
            watch.finished(key, entry.bytes, "copied")
            copied += 1
    target.write_manifest(manifest)
    return Promoted(copied, len(manifest.objects) - copied)


def _was_in(file: Path, release_id: str) -> bool:
    """Whether a commit of this history put the id into the file, or took it out."""
    command = ["git", "log", "--max-count=1", "--format=%H", f"-S{release_id}", "--", file.name]
    done = subprocess.run(command, cwd=file.parent, capture_output=True, text=True, check=False, timeout=_GIT_SECONDS)
    return done.returncode == 0 and bool(done.stdout.strip())
