"""Find what scales the pods and the nodes of a stack, from its unchecked file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def scalers(config: Mapping[str, Any]) -> frozenset[str]:
    """Return the scalers of Triton's pods and the workers (`keda`, `hpa`, `none`), from the section `config` of a file.

    The file may have mistakes, because only these keys are read.
    """
    worker = _section(config, "worker")
    return frozenset((*_of_fleets(config), _owner_of_pods(worker.get("autoscaler"), worker.get("maxReplicas"))))


def node_scaler(config: Mapping[str, Any]) -> str:
    """Return the scaler of the nodes, equal to `node_autoscaler` of the settings for a file without mistakes."""
    named = _section(config, "nodes").get("autoscaler")
    return str(named or ("none" if _of_fleets(config) == {"none"} else "karpenter"))


def _of_fleets(config: Mapping[str, Any]) -> set[str]:
    """Return the scalers of the pods of Triton's fleets, each by its own bounds or the stack's."""
    triton, fleets = _section(config, "triton"), config.get("triton-eks:fleets")
    own = [fleet.get("autoscaling") for fleet in fleets if isinstance(fleet, dict)] if isinstance(fleets, list) else []
    return {_owner_of_pods(triton.get("autoscaler"), bounds) for bounds in (config.get("triton-eks:autoscaling"), *own)}


def _owner_of_pods(named: Any, bounds: Any) -> str:
    # Every plugin for Kubernetes imports this module; importing the settings' classes would double its import time.
    from spec.settings.triton import owner_of_pods

    return owner_of_pods(named, bounds)


def _section(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = config.get(f"triton-eks:{name}")
    return found if isinstance(found, dict) else {}
