"""Triton's image as NVIDIA publishes it, named by what it is and not by a tag that can be pushed again."""

from __future__ import annotations

from spec.versions import triton_upstream_tag
from stackctl.images.registry import Manifest, Registry


def place(repository: str) -> tuple[str, str]:
    """Return registry and path of a repository like `nvcr.io/nvidia/tritonserver`."""
    host, _, path = repository.partition("/")
    return host, path


def find(version: str, source: str | None = None) -> tuple[Registry, str, Manifest]:
    """Return the registry, path and manifest of a release of Triton (`26.07`), from NVIDIA or from the repository `source`.

    Raises RegistryFailed, NoSuchImage.
    """
    repository, _, tag = triton_upstream_tag(version).rpartition(":")
    host, path = place(source or repository)
    registry = Registry(host)
    return registry, path, registry.image(path, tag)


def pinned_image(version: str) -> str:
    """Return NVIDIA's image of a release by its digest. Raises RegistryFailed, NoSuchImage."""
    registry, path, manifest = find(version)
    return f"{registry.host}/{path}@{manifest.digest}"
