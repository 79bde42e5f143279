"""Copy pinned releases from a stack of the previous environment: identical objects under the same ids."""

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
    """The release must not be promoted; the text gives the remedy."""


@dataclass(frozen=True)
class Promotion:
    """The release that a stack pins, and its target store.

    One of `signers` must have signed it in the source. The copy gets the source's signature, or a signature by `signer`.
    """

    release_id: str
    target: Store
    signers: tuple[str, ...] = ()
    signer: Signer | None = None


@dataclass(frozen=True)
class Promoted:
    """The result of a promotion: the number of copied objects, and of objects that existed already."""

    copied: int
    found: int


def settings_of(file: Path) -> Settings:
    """Return the settings of a stack file. Raises PromotionError and SettingsError."""
    try:
        return load_stack_file(file)
    except FileNotFoundError:
        raise PromotionError(f"there is no {file}; run it from the root of the checkout") from None


def bucket_of(file: Path) -> str:
    """Return the models bucket of a stack, in the account that its file names. Raises PromotionError and SettingsError."""
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
    """Plan the promotion for a stack, without writing; None if the stack pins no release.

    Raises Failure if the promotion is not allowed, the release is incomplete in the source, or the bucket is another stack's
    or cannot be read.
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
    """Raise PromotionError unless `before` pins the release, or once did: an untried release is not promoted."""
    if pinned(before) == release_id or _was_in(before, release_id):
        return
    raise PromotionError(
        f"{stack} pins release {release_id}, which {before} has never pinned: pin it there first (`modelctl pin`) and "
        "deploy that, so that both environments serve the same objects"
    )


def copy_release(plan: Promotion, source: Store, watch: Observer) -> Promoted:
    """Copy a finished release. The objects are first, each checked against its hash, then the manifest, then the signature.

    If it is killed, the next run resumes it. Raises UnknownRelease, ManifestError and StoreError.
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
    # Copy the manifest's bytes: another version of modelctl may have written other keys, and the signature covers the bytes.
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
    """Return whether a commit in the file's history added or removed the id."""
    command = ["git", "log", "--max-count=1", "--format=%H", f"-S{release_id}", "--", file.name]
    done = subprocess.run(command, cwd=file.parent, capture_output=True, text=True, check=False, timeout=_GIT_SECONDS)
    return done.returncode == 0 and bool(done.stdout.strip())
