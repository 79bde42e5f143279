"""Copy the releases that stacks pin from a stack of the environment before: the very same objects under the same ids."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from modelctl.release import catalog
from modelctl.release.progress import Observer
from modelctl.store.bucket import Store, open_store
from modelctl.store.digest import digest
from modelctl.store.manifest import Manifest, ManifestError
from modelctl.store.signer import Signer
from spec.failure import Failure
from spec.names import RELEASE_MANIFEST, RELEASE_SIGNATURE, model_bucket
from spec.settings import Settings, load_stack_file
from spec.stack_names import stack_of_model_bucket

_GIT_SECONDS = 60


class PromotionError(Failure):
    """The release must not go to the next environment; the text says what would be right."""


@dataclass(frozen=True)
class Promotion:
    """The release that a stack pins, and the store that it has to get into.

    `signers` have to have signed it in the source. The copy gets the signature of the source, or that of `signer`.
    """

    release_id: str
    target: Store
    signers: tuple[str, ...] = ()
    signer: Signer | None = None


@dataclass(frozen=True)
class Promoted:
    """The result of a promotion: how many objects were copied, and how many were there already."""

    copied: int
    found: int


def settings_of(file: Path) -> Settings:
    """Return the settings of a stack file. Raises PromotionError and SettingsError."""
    try:
        return load_stack_file(file)
    except FileNotFoundError:
        raise PromotionError(f"there is no {file}; run it from the root of the checkout") from None


def bucket_of(file: Path) -> str:
    """Return the models bucket of a stack, by the account that its file names. Raises PromotionError and SettingsError."""
    settings = settings_of(file)
    accounts = settings.allowed_account_ids or ()
    if len(accounts) != 1:
        raise PromotionError(
            f"{file} does not say in which account its bucket is: name one in aws:allowedAccountIds of that file, as "
            "deploy.yml needs it; by hand the bucket may be given instead (--bucket; promote: --from)"
        )
    return model_bucket(settings.stack, accounts[0], settings.region)


def pinned(file: Path) -> str | None:
    """Return the release that a stack file pins. Raises PromotionError and SettingsError."""
    release = settings_of(file).models.release
    return release.id if release is not None else None


def promotion(
    file: Path, before: Path, source: Store, bucket: str, endpoint_url: str | None, signer: Signer | None = None
) -> Promotion | None:
    """Return what has to be copied for a stack; None where it pins nothing. Nothing is written yet.

    Raises Failure where the release may not come, is not whole in the source, or the bucket is another stack's or cannot be
    read.
    """
    settings = settings_of(file)
    if settings.models.release is None:
        return None
    owner = stack_of_model_bucket(bucket)
    if owner not in (None, settings.stack):
        raise PromotionError(
            f"{bucket} is the bucket of stack {owner}, and not of {settings.stack}; give that of {settings.stack}"
        )
    release_id = settings.models.release.id
    refuse_unknown(release_id, file, before)
    signers = settings.models.signers
    required = signers if signer is None else settings_of(before).models.signers
    manifest = catalog.finished(source, release_id, required)
    if signer is not None:
        signer.require_one_of(signers, source, manifest)
    target = open_store(bucket, endpoint_url, region=settings.region)
    target.manifest(release_id)
    return Promotion(release_id, target, required, signer)


def refuse_unknown(release_id: str, stack: Path, before: Path) -> None:
    """Raise PromotionError unless `before` pins the release, or once has: what nobody tried is not promoted."""
    if pinned(before) == release_id or _was_in(before, release_id):
        return
    raise PromotionError(
        f"{stack} pins release {release_id}, which {before} has never pinned: pin it there first (`modelctl pin`) and "
        "deploy that, so that both environments serve the same objects"
    )


def copy_release(plan: Promotion, source: Store, watch: Observer) -> Promoted:
    """Copy a finished release, each object checked against its hash, then the manifest, and its signature last.

    Killed, it is continued by the next one. Raises UnknownRelease, ManifestError, StoreError.
    """
    release_id, target = plan.release_id, plan.target
    manifest = catalog.finished(source, release_id, plan.signers)
    if target.manifest(release_id) is not None:
        _sign(plan, source, manifest)
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
    # As it is stored: a manifest of another version of modelctl has other keys, and a signature is of its bytes.
    if (stored := source.document(release_id, RELEASE_MANIFEST)) is None:
        raise ManifestError(f"manifest.json of release {release_id} in {source.place} was deleted meanwhile; restore it")
    target.write_document(release_id, RELEASE_MANIFEST, stored)
    _sign(plan, source, manifest)
    return Promoted(copied, len(manifest.objects) - copied)


def _sign(plan: Promotion, source: Store, manifest: Manifest) -> None:
    if plan.signer is not None:
        plan.signer.sign(plan.target, manifest)
    elif (signature := source.document(plan.release_id, RELEASE_SIGNATURE)) is not None:
        plan.target.write_document(plan.release_id, RELEASE_SIGNATURE, signature)


def _was_in(file: Path, release_id: str) -> bool:
    """Return whether a commit of this history put the id into the file, or took it out."""
    command = ["git", "log", "--max-count=1", "--format=%H", f"-S{release_id}", "--", file.name]
    done = subprocess.run(command, cwd=file.parent, capture_output=True, text=True, check=False, timeout=_GIT_SECONDS)
    return done.returncode == 0 and bool(done.stdout.strip())
