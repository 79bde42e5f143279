"""Who scales the pods of a stack, read from its file before that is checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spec.settings.triton import owner_of_pods


def scalers(config: Mapping[str, Any]) -> frozenset[str]:
    """Return who scales Triton's pods and the workers (`keda`, `hpa`, `none`), from what stands below `config` of a file.

    The file may have mistakes: only what these keys say is read.
    """
    triton, worker, fleets = _section(config, "triton"), _section(config, "worker"), config.get("triton-eks:fleets")
    own = [fleet.get("autoscaling") for fleet in fleets if isinstance(fleet, dict)] if isinstance(fleets, list) else []
    return frozenset(
        (
            *(owner_of_pods(triton.get("autoscaler"), bounds) for bounds in (config.get("triton-eks:autoscaling"), *own)),
            owner_of_pods(worker.get("scaler"), worker.get("maxReplicas")),
        )
    )


def _section(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = config.get(f"triton-eks:{name}")
    return found if isinstance(found, dict) else {}
