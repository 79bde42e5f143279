"""Which built programs a stack needs beside those of every twin: the ones that stand for its third-party charts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_KEDA = ("keda",)
_ADAPTER = ("prometheus-adapter",)
_PROMETHEUS = ("prometheus", "prometheus-operator")


def families(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The families (twin/host/tools.py) for the `config` of a stack file."""
    # Read before the stack is checked; where it names no owner, bounds make it KEDA, as `spec.settings.model` has it.
    bounded = (config.get("triton-eks:autoscaling"), _of(config, "worker").get("maxReplicas"))
    named = (_of(config, "triton").get("autoscaler"), _of(config, "worker").get("scaler"))
    scalers = [owner or ("keda" if bounds is not None else None) for owner, bounds in zip(named, bounded, strict=True)]
    monitored = config.get("triton-eks:monitoring") is not None
    return (
        *(_PROMETHEUS if monitored else ()),
        *(_KEDA if "keda" in scalers else ()),
        *(_ADAPTER if "hpa" in scalers else ()),
    )


def _of(config: Mapping[str, Any], section: str) -> Mapping[str, Any]:
    found = config.get(f"triton-eks:{section}")
    return found if isinstance(found, dict) else {}
