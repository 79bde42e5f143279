"""`modelctl rollback`: a stack returns to the release that it served before."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from modelctl import catalog
from modelctl.command_line import Bucket, Endpoint, failures
from modelctl.manifest import Manifest
from modelctl.pin import PinError, Pinned, pin, pinned
from modelctl.problems import Refusal, ValidationFailed
from modelctl.retire import refuse_retired
from modelctl.stacks import read_stack, stack_name
from modelctl.store import Store, open_store


class RollbackError(Refusal):
    """There is no release to return to, or it does not fit the stack as it is now."""


@dataclass(frozen=True)
class RolledBack:
    """What `roll_back` did: the release that the stack pins now, the one it left, and the lines that changed.

    `forward`: the release is newer than the one it replaces, so an earlier rollback was undone.
    """

    release: Manifest
    left: str
    forward: bool
    changes: list[str]


def rollback(
    bucket: Bucket,
    file: Annotated[Path, typer.Option(help="Stack file, for example stacks/Pulumi.dev.yaml.")],
    endpoint_url: Endpoint = None,
) -> None:
    """Pin the previous release again; the next `pulumi up` rolls it out. Twice returns to where it began."""
    with failures():
        done = roll_back(file, open_store(bucket, endpoint_url))
        for change in done.changes:
            typer.echo(f"{file}: {change}")
        way = "forward again, to the newer release" if done.forward else "back to release"
        typer.echo(f"{file}: {way} {done.release.id}; `pulumi up` rolls it out, another rollback returns to {done.left}")


def roll_back(file: Path, store: Store) -> RolledBack:
    """Pins the release that the file names as the previous one, and makes the pinned one the previous one.

    Raises RollbackError and RetirementError when that cannot be served as things are; UnknownRelease and ManifestError when
    it is not (wholly) in the bucket; PinError, StoreError; ValidationFailed when the stack file has mistakes.
    """
    now = pinned(file)
    if now is None:
        raise RollbackError(f"{file}: pins no release, so there is none to go back from; run `modelctl pin` first")
    if now.previous is None:
        raise RollbackError(
            f"{file}: names no previous release: none was replaced here since `previous` is kept; choose one that "
            "`modelctl list` shows and run `modelctl pin`"
        )
    manifest = catalog.finished(store, now.previous)
    refuse_retired(manifest, store)
    _refuse_other_wants(file, now, manifest)
    left = store.manifest(now.id)
    return RolledBack(
        release=manifest,
        left=now.id,
        forward=left is not None and manifest.created > left.created,
        changes=pin(file, manifest),
    )


def _refuse_other_wants(file: Path, now: Pinned, manifest: Manifest) -> None:
    """The configs in a release are made from the wants of its time; the program refuses a stack whose wants differ."""
    stack, problems = read_stack(file)
    if problems:
        raise ValidationFailed(problems)
    name = stack_name(file)
    if name is None:
        raise PinError(f"{file}: is not named Pulumi.<stack>.yaml, so it cannot be told which stack it is")
    # A file of pins alone (the twin's) has no wants of its own: those of the release that it pins are the stack's.
    wanted = stack.digest if stack is not None else now.serving
    made_from = manifest.serving.get(name)
    if made_from == wanted:
        return
    raise RollbackError(
        f"{file}: release {manifest.id} was made from other wants (models.serving {made_from or 'none'}) than the file has "
        f"now ({wanted or 'none'}): put models.serving back as it was when {manifest.id} was pinned "
        f"(`git log -p -- {file}` shows it) and run this again; to keep the new wants instead, release the older models "
        f"again: `python -m modelctl release MODELS_DIR --bucket BUCKET --pin {file}`"
    )
