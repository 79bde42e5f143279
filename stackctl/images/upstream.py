"""Find NVIDIA's Triton image by its digest, because a tag can be pushed again."""

from __future__ import annotations

from spec.versions import triton_upstream_tag
from stackctl.images.registry import Manifest, Registry


def find(version: str) -> tuple[Registry, str, Manifest]:
    """Return the registry, path and manifest of a Triton release (`26.11`). Raises RegistryFailed, NoSuchImage."""
    repository, _, tag = triton_upstream_tag(version).rpartition(":")
    host, _, path = repository.partition("/")
    registry = Registry(host)
    return registry, path, registry.image(path, tag)


def pinned_image(version: str) -> str:
    """Return NVIDIA's image of a release by its digest. Raises RegistryFailed, NoSuchImage."""
    registry, path, manifest = find(version)
    return f"{registry.host}/{path}@{manifest.digest}"
