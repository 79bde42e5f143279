"""How many instances of a model a pod has."""

from __future__ import annotations

from spec.settings.model import Document
from spec.settings.serving import ModelServing


def instances_per_pod(document: Document, model: str, wants: ModelServing) -> int:
    """Return the instances of a model in one pod: `instances` are per GPU on GPUs, unless it takes all of them by itself."""
    release = document.models.release
    each = wants.device == "gpu" and (release is None or model not in release.self_placed)
    return document.models.instances_of(model) * (document.triton.gpus if each else 1)
