"""Read an image that `make images` has built in a folder, for `stackctl push-images`.

The folder's form: https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spec import reading
from spec.reading import Unreadable
from stackctl.images.registry import Blob, Manifest, NoSuchImage, RegistryFailed

_INDEX = {"manifests": [{"digest": str, "mediaType": str}]}
_BLOCK = 1024 * 1024


class Layout:
    """The images of a folder, with a registry's methods that `mirror.copy` uses to read."""

    def __init__(self, folder: Path) -> None:
        self.host = str(folder)
        self._folder = folder

    def image(self, name: str) -> Manifest:
        """Return the manifest of an image. Raises NoSuchImage, RegistryFailed."""
        index = self._folder / name / "index.json"
        if not index.is_file():
            raise NoSuchImage(
                f"{self.host} has no image {name}; run `sudo make images`, or name a published release by --source"
            )
        try:
            (entry,) = reading.checked(reading.json_file(index), _INDEX, str(index))["manifests"]
            content = reading.file(self._blob(name, entry["digest"]))
            if entry["digest"] != f"sha256:{hashlib.sha256(content).hexdigest()}":
                raise Unreadable("the manifest has another digest")
            return Manifest(entry["digest"], entry["mediaType"], content)
        except (Unreadable, KeyError, TypeError, ValueError) as error:
            raise RegistryFailed(f"{index}: {error}; build the images again: `sudo make images`") from None

    def blobs(self, manifest: Manifest) -> list[Blob]:
        """Return the parts of an image. Raises RegistryFailed for an invalid manifest."""
        try:
            return manifest.blobs
        except Unreadable as error:
            raise RegistryFailed(f"{self.host}: {error}; build the images again: `sudo make images`") from None

    @contextmanager
    def blob(self, name: str, digest: str) -> Iterator[Iterator[bytes]]:
        """Open a part of an image and yield its pieces in order. Raises RegistryFailed."""
        try:
            with self._blob(name, digest).open("rb") as opened:
                yield iter(lambda: opened.read(_BLOCK), b"")
        except OSError as error:
            raise RegistryFailed(f"{error}; build the images again: `sudo make images`") from None

    def _blob(self, name: str, digest: str) -> Path:
        return self._folder / name / "blobs" / digest.replace(":", "/")
