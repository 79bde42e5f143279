"""Return a stack to its previous release."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shlex import join, quote

from modelctl.release import catalog
from modelctl.release.earlier_wants import commit_with
from modelctl.release.pin import PinError, Pinned, PinRefused, pin_accepted, pinned, signers
from modelctl.release.retire import refuse_retired
from modelctl.release.stacks import read_stack, release_of, stack_name
from modelctl.repository.problems import ValidationFailed
from modelctl.store.bucket import Store
from modelctl.store.manifest import Manifest
from spec.failure import Failure
from spec.settings.release import Release

_STACKS = Path("stacks")
"""The directory of the stack file with the serving settings, if the given file has only pins."""


class RollbackError(Failure):
    """There is no release to return to, or it does not fit the current stack. The text has the commands that help."""


@dataclass(frozen=True)
class RolledBack:
    """The result of `roll_back`: the release pinned now, the replaced one, and the changed lines.

    `forward`: the release is newer than the replaced one, so this undid an earlier rollback.
    """

    release: Manifest
    left: str
    forward: bool
    changes: list[str]


def roll_back(file: Path, store: Store, seen: Pinned | None = None) -> RolledBack:
    """Swap the pinned and the previous release of the file.

    `seen` is the pin when the release was judged; None for the current pin. Raises RollbackError and RetirementError when
    the previous release cannot be served now, or when the pin has changed meanwhile. RollbackError is also raised when a
    stack file without mistakes would have some. Raises UnknownRelease and ManifestError when it is missing or incomplete in
    the bucket, PinError, StoreError, and ValidationFailed when the stack file has mistakes.
    """
    now = seen or pinned(file)
    if now is None:
        raise RollbackError(f"{file}: pins no release, so there is none to go back from; run `modelctl pin` first")
    if now.previous is None:
        raise RollbackError(
            f"{file}: names no previous release: none was replaced here since `previous` is kept; choose one that "
            "`modelctl list` shows and run `modelctl pin`"
        )
    manifest = catalog.finished(store, now.previous, signers(file))
    refuse_retired(manifest, store)
    _refuse_other_wants(file, now, manifest, store)
    left = store.manifest(now.id)
    if (found := pinned(file)) != now:
        raise RollbackError(
            f"{file}: the pin has changed meanwhile, from release {now.id} to {found.id if found else 'none'}; nothing was "
            "written"
        )
    try:
        changes = pin_accepted(file, manifest)
    except PinRefused as refused:
        raise RollbackError(str(refused)) from None
    return RolledBack(
        release=manifest,
        left=now.id,
        forward=left is not None and manifest.created > left.created,
        changes=changes,
    )


def _refuse_other_wants(file: Path, now: Pinned, manifest: Manifest, store: Store) -> None:
    """Refuse a release made from other serving settings than the stack's. The program refuses such a stack.

    Raises ValidationFailed, PinError and RollbackError.
    """
    stack, problems = read_stack(file)
    if problems:
        raise ValidationFailed(problems)
    name = stack_name(file)
    if name is None:
        raise PinError(f"{file}: is not named Pulumi.<stack>.yaml, so it cannot be told which stack it is")
    # A file with only pins (the twin's) has no serving settings; the stack's settings are those of its pinned release.
    released = release_of(manifest.models, manifest.derived_for(name))
    wanted = stack.digest(released) if stack is not None else now.serving
    made_from = manifest.serving.get(name)
    if made_from == wanted:
        return
    wants_file = file if stack is not None else _STACKS / file.name
    # Without serving settings in the file, they cannot be compared with the release's.
    compared = stack is not None and made_from is not None
    again = _command("rollback", store, "--file", file) if compared else _command("pin", store, "--file", file, manifest.id)
    raise RollbackError(
        f"{file}: release {manifest.id} was made from other wants ({made_from or 'none'}) than the stack has now "
        f"({wanted or 'none'}): models.serving, or the kind of GPU of Triton's pool, has changed since.\n"
        f"Either go back with the wants, too: {_wants_of_then(wants_file, made_from, released)}, then run\n"
        f"  {again}\n"
        f"or keep those of now: have in models/ what it has ({_versions(manifest)}; models/release.yaml chooses among the "
        "versions that are there), then run\n"
        f"  {_command('release', store, '--pin', file, 'models')}"
    )


def _wants_of_then(file: Path, digest: str | None, release: Release) -> str:
    """Return the instruction that restores the serving settings in the stack file."""
    if digest is None:
        return f"remove models.serving from {file}"
    commit = commit_with(file, digest, release)
    there = f", as `git -C {quote(str(file.parent))} show {commit}:./{file.name}` shows them" if commit is not None else ""
    return f"write those of then into {file}{there}"


def _command(name: str, store: Store, option: str, file: Path, *arguments: str) -> str:
    place = store.place
    endpoint = ["--endpoint-url", place.endpoint_url] if place.endpoint_url is not None else []
    words = [*arguments, "--bucket", place.bucket, option, str(file), *endpoint]
    return f"python3 -m modelctl {name} {join(words)}"


def _versions(manifest: Manifest) -> str:
    return ", ".join(f"{name} {' and '.join(map(str, (*m.others, m.version)))}" for name, m in manifest.models.items())
