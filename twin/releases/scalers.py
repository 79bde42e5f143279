"""Who scales the pods of a stack, read from its file before that is checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def scalers(config: Mapping[str, Any]) -> frozenset[str]:
    """Return who scales Triton's pods and the workers (`keda`, `hpa`, …), from what stands below `config` of a stack file.

    Where nobody is named, bounds make it KEDA, as `spec.settings.model` has it.
    """
    bounded = (config.get("triton-eks:autoscaling"), _section(config, "worker").get("maxReplicas"))
    named = (_section(config, "triton").get("autoscaler"), _section(config, "worker").get("scaler"))
    owners = (owner or ("keda" if bounds is not None else None) for owner, bounds in zip(named, bounded, strict=True))
    return frozenset(filter(None, owners))


def _section(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = config.get(f"triton-eks:{name}")
    return found if isinstance(found, dict) else {}
