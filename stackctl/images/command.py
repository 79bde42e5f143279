"""Run `stackctl image`: write Triton's image into a stack file by its digest, from NVIDIA's registry or a copy in ECR."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from console.program import interruptible
from console.terminal import output
from spec.failure import NOT_TRIED, Failure
from spec.stack_editor import StackEditor
from spec.stack_names import file_of
from spec.versions import PROJECT, TRITON_RELEASES, triton_upstream_tag
from spec.wording import one_of
from stackctl.account.guard import ALLOWED_ACCOUNTS_KEY, IDENTITY_OPERATIONS, caller
from stackctl.account.read_only import Readers
from stackctl.images import mirror, upstream

_TRITON = f"{PROJECT}:triton"


class NoImage(Failure):
    """There is no image to write, or no place for it; the text says what is missing."""

    exit_code = NOT_TRIED


def image(version: str, stack: str, *, mirrored: bool) -> None:
    """Write the image of a release of Triton into the stack file, and with `mirrored` copy it to ECR first. Raises Failure.

    Of the stack file only what is needed is read: the image may be what is wrong with it.
    """
    if version not in TRITON_RELEASES and version < max(TRITON_RELEASES):
        raise NoImage(f"spec/versions.py does not know Triton {version}; use {one_of(TRITON_RELEASES)}")
    file = file_of(stack, Path())
    editor = StackEditor(file)
    triton = editor.section(_TRITON)
    if triton is None:
        raise NoImage(f"{file}: has no {_TRITON}, where the image belongs; docs/stack-file.md has the keys")
    console = output(soft_wrap=True)
    with interruptible("interrupted; run the same command again, it goes on with what is missing"):
        source, path, manifest = upstream.find(version)
        named = f"{source.host}/{path}@{manifest.digest}"
        console.print(f"{triton_upstream_tag(version)} is {manifest.digest}")
        if mirrored:
            region, tags = _account(editor, file)
            target = mirror.ecr(region, tags)
            mirror.copy(source, path, manifest, target, f"{version}-py3", console.print)
            named = f"{target.host}/{mirror.REPOSITORY}@{manifest.digest}"
    if (triton.get("version"), triton.get("image")) == (version, named):
        console.print(f"{file} has it already")
        return
    triton["version"], triton["image"] = version, named
    key = editor.key(_TRITON)
    editor.save({(key, "version"): version, (key, "image"): named})
    console.print(f"{file}: triton.image {named}")


def _account(editor: StackEditor, file: Path) -> tuple[str, dict[str, str]]:
    """Return the region of the file, and the tags for what is made. Raises NoImage for another account than the file's."""
    region, allowed = editor.config.get("aws:region"), editor.config.get(ALLOWED_ACCOUNTS_KEY)
    if not isinstance(region, str):
        raise NoImage(f"{file}: has no aws:region, where the copy belongs")
    who = caller(Readers(region, IDENTITY_OPERATIONS))
    if isinstance(allowed, list) and who.account not in map(str, allowed):
        raise NoImage(
            f"the credentials are for account {who.account} ({who.arn}), and {file} is for {one_of(allowed)} "
            f"({ALLOWED_ACCOUNTS_KEY}); log in to that one"
        )
    given: Mapping[str, object] = editor.section(f"{PROJECT}:tags") or {}
    return region, {"project": PROJECT, **{str(key): str(value) for key, value in given.items()}}
