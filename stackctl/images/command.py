"""Run `stackctl image` and `stackctl push-images`: pin images by digest, and copy them to ECR."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from console.program import interruptible
from console.terminal import output
from spec.failure import NOT_TRIED, Failure
from spec.settings.images import OWN_IMAGES
from spec.stack_editor import StackEditor
from spec.stack_names import file_of
from spec.versions import PROJECT, TRITON_RELEASES, triton_upstream_tag
from spec.wording import one_of
from stackctl.account.guard import ALLOWED_ACCOUNTS_KEY, IDENTITY_OPERATIONS, caller
from stackctl.account.read_only import Readers
from stackctl.images import mirror, upstream
from stackctl.images.layout import Layout
from stackctl.images.registry import Manifest, Registry

_TRITON = f"{PROJECT}:triton"


class NoImage(Failure):
    """An image, or its place in the file, is missing. The text names it."""

    exit_code = NOT_TRIED


def image(version: str, stack: str, *, mirrored: bool) -> None:
    """Write a Triton release's image into the stack file; `mirrored`: copy it to ECR first.

    Only the required keys of the stack file are read, because its image may be the invalid part. Raises Failure.
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
            target = mirror.ecr(region, mirror.TRITON, tags)
            mirror.copy(source, path, manifest, target, mirror.TRITON, f"{version}-py3", console.print)
            named = f"{target.host}/{mirror.TRITON}@{manifest.digest}"
    if (triton.get("version"), triton.get("image")) == (version, named):
        console.print(f"{file} has it already")
        return
    triton["version"], triton["image"] = version, named
    key = editor.key(_TRITON)
    editor.save({(key, "version"): version, (key, "image"): named})
    console.print(f"{file}: triton.image {named}")


def push_images(stack: str, source: str) -> None:
    """Copy modelctl's and the worker's images to ECR, and pin their digests.

    Every key of the stack file that names one gets its digest. `source`: the folder of `make images`, or
    `<registry>/<path>:<tag>`, below which the workflow images.yml publishes them. Raises Failure.
    """
    file = file_of(stack, Path())
    editor = StackEditor(file)
    places = list(_own_images(editor))
    if not places:
        raise NoImage(f"{file}: has none of {', '.join(OWN_IMAGES)}; write one with an example (docs/images.md)")
    region, tags = _account(editor, file)
    console = output(soft_wrap=True)
    changes: dict[tuple[str, ...], str] = {}
    with interruptible("interrupted; run the same command again, it goes on with what is missing"):
        for name in sorted({OWN_IMAGES[key] for key, _, _ in places}):
            registry, path, manifest = _built(source, name)
            target = mirror.ecr(region, name, tags)
            mirror.copy(registry, path, manifest, target, name, manifest.digest.removeprefix("sha256:")[:12], console.print)
            for key, section, steps in places:
                if OWN_IMAGES[key] == name:
                    section[steps[-1]] = changes[steps] = f"{target.host}/{name}@{manifest.digest}"
                    console.print(f"{file}: {key} {section[steps[-1]]}")
    editor.save(changes)


def _own_images(editor: StackEditor) -> Iterator[tuple[str, dict[str, object], tuple[str, ...]]]:
    """Yield each key of `OWN_IMAGES` in the file with its mapping and path."""
    for key in OWN_IMAGES:
        section, *steps = key.split(".")
        mapping = editor.section(f"{PROJECT}:{section}")
        for step in steps[:-1]:
            mapping = mapping.get(step) if isinstance(mapping, dict) else None
        if isinstance(mapping, dict) and steps[-1] in mapping:
            yield key, mapping, (editor.key(f"{PROJECT}:{section}"), *steps)


def _built(source: str, name: str) -> tuple[Registry | Layout, str, Manifest]:
    """Return an image's source, its path there, and its manifest. Raises RegistryFailed, NoSuchImage."""
    path, colon, tag = source.rpartition(":")
    if not colon or "/" in tag:
        layout = Layout(Path(source))
        return layout, name, layout.image(name)
    host, _, path = path.partition("/")
    registry = Registry(host)
    return registry, f"{path}/{name}", registry.image(f"{path}/{name}", tag)


def _account(editor: StackEditor, file: Path) -> tuple[str, dict[str, str]]:
    """Return the region of the file, and the tags for new repositories.

    Raises NoImage if the credentials are for an account that the file does not allow.
    """
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
