"""A digest of the model requirements of a stack. It shows whether a release was made from other requirements."""

import hashlib
import json
from typing import Any

from spec.settings.model import Document
from spec.settings.models import Models
from spec.settings.section import Section
from spec.settings.serving import ModelServing

_DIGITS = 12
_NOT_IN_CONFIGS = frozenset({"tuned", "longest_stream_seconds"})
"""Keys that no config is made from: the evidence for a value, and a value that only the pods use."""


_SINCE = ("llm", "slo_p99_ms", "queue_timeout_ms")
"""Keys newer than some pinned releases. If they are not set, the digest of such a release stays the same."""

_FORMER = {
    "preferred_batch_sizes": (),
    "tensorrt_fp16": False,
    "cuda_graphs": False,
}
"""Keys that there were, with their defaults: releases that are pinned have them in their digests."""


def serving_digest(settings: Document) -> str:
    """Return 12 hex digits of the inputs of a release's configs: `models.serving` and the GPUs of Triton's pools.

    Equal requirements give equal digests, whatever their order and whether defaults are spelt out. Keys that change no
    config are left out. Derived instances count like configured ones. Raises Absent while one of the values is missing or
    invalid.
    """
    return digest_of(settings.models, compute_capabilities(settings))


def digest_of(models: Models, capabilities: tuple[float, ...]) -> str:
    """Return the digest of `models.serving` for GPUs with these compute capabilities."""
    wants = {
        name: {**_FORMER, **_plain(model, without=_left_out(model)), "instances": models.instances_of(name)}
        for name, model in models.serving.items()
    }
    canonical = json.dumps({"serving": wants, "computeCapabilities": capabilities}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:_DIGITS]


def _left_out(model: ModelServing) -> frozenset[str]:
    return _NOT_IN_CONFIGS | {name for name in _SINCE if getattr(model, name) == type(model).model_fields[name].default}


def _plain(value: Any, without: frozenset[str] = frozenset()) -> Any:
    """Return a value as plain JSON data. Reads every key of a section, so a missing key raises Absent."""
    if isinstance(value, Section):
        return {name: _plain(getattr(value, name)) for name in type(value).model_fields if name not in without}
    return value


def compute_capabilities(settings: Document) -> tuple[float, ...]:
    """Return the NVIDIA compute capabilities of Triton's GPUs, ascending, without types that the catalogue lacks.

    With several fleets, return the capabilities of all their pools: one config of a model lists the files for each kind of
    GPU.
    """
    wanted = {fleet.stack.triton.pool for fleet in settings.each_fleet if fleet.stack.triton.gpus}
    types = [known for pool in settings.gpu.pools if pool.name in wanted for known in pool.types]
    return tuple(sorted({known.compute_capability for known in types if known.compute_capability is not None}))
