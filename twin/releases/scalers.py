"""Who scales the pods and the nodes of a stack, read from its file before that is checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def scalers(config: Mapping[str, Any]) -> frozenset[str]:
    """Return who scales Triton's pods and the workers (`keda`, `hpa`, `none`), from what stands below `config` of a file.

    The file may have mistakes: only what these four keys say is read.
    """
    # Every plugin for Kubernetes imports this module; the classes of all settings take as long as the rest of it.
    from spec.settings.triton import owner_of_pods

    triton, worker = _section(config, "triton"), _section(config, "worker")
    return frozenset(
        (
            owner_of_pods(triton.get("autoscaler"), config.get("triton-eks:autoscaling")),
            owner_of_pods(worker.get("scaler"), worker.get("maxReplicas")),
        )
    )


def node_scaler(config: Mapping[str, Any]) -> str:
    """Return who changes the number of nodes, as `node_autoscaler` of the settings says of a file without mistakes."""
    named = _section(config, "nodes").get("autoscaler")
    triton = _section(config, "triton")
    pods = owner_of_pods(triton.get("autoscaler"), config.get("triton-eks:autoscaling"))
    return str(named or ("none" if pods == "none" else "karpenter"))


def _section(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = config.get(f"triton-eks:{name}")
    return found if isinstance(found, dict) else {}
