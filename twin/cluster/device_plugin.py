"""Compute what the NVIDIA device plugin would advertise on a node, from the installed Helm values.

The plugin itself needs a GPU. The twin can check whether it is scheduled on the node, under which name it offers each GPU,
and how often. All of these follow from values, labels and taints (docs/facts/gpu-nodes.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

CONFIG_LABEL = "nvidia.com/device-plugin.config"
MPS_LABEL = "nvidia.com/mps.capable"
GPU = "nvidia.com/gpu"
MIG_PREFIX = "nvidia.com/mig-"


def is_resource(name: str) -> bool:
    """Return whether this module may advertise a resource of this name."""
    return name in (GPU, f"{GPU}.shared") or name.startswith(MIG_PREFIX)


_DEFAULT_AFFINITY: dict[str, Any] = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": key, "operator": "In", "values": ["true"]}]}
                for key in ("feature.node.kubernetes.io/pci-10de.present", "nvidia.com/gpu.present")
            ]
        }
    }
}
_DEFAULT_TOLERATIONS = [
    {"key": "CriticalAddonsOnly", "operator": "Exists"},
    {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
]
"""The chart's defaults, for values that the release does not set."""


@dataclass(frozen=True)
class Advertisement:
    """The resources that the plugin offers on one node. `problem`: why a node with GPUs has none of them."""

    resources: Mapping[str, int]
    problem: str | None = None


def advertised(
    values: Mapping[str, Any] | None,
    labels: Mapping[str, str],
    taints: Sequence[Mapping[str, str]],
    gpus: int,
    mig: tuple[str, int] | None = None,
) -> Advertisement:
    """Return the extended resources of a node with `gpus` whole GPUs. `values` is None while the chart is not installed.

    `mig`: profile and number of the instances that each GPU was partitioned into when the node started.
    """
    if gpus == 0:
        return Advertisement({})
    if values is None:
        return Advertisement({}, "the NVIDIA device plugin is not installed")
    obstacle = scheduling_obstacle(values, labels, taints)
    if obstacle:
        return Advertisement({}, f"the NVIDIA device plugin's DaemonSet does not run here: {obstacle}")
    try:
        config = _config(values, labels)
        if mig is not None:
            return _instances(config, gpus, *mig)
        return Advertisement(_offer(config.get("sharing") or {}, values, labels, gpus))
    except ValueError as error:
        return Advertisement({}, f"the NVIDIA device plugin does not start: {error}")


def scheduling_obstacle(
    values: Mapping[str, Any], labels: Mapping[str, str], taints: Sequence[Mapping[str, str]]
) -> str | None:
    """Return why the DaemonSet has no pod on a node with these labels and taints; None if it has one."""
    selector = values.get("nodeSelector") or {}
    for key, value in selector.items():
        if labels.get(key) != value:
            return f"its nodeSelector wants {key}={value}"
    affinity = values.get("affinity")
    affinity = _DEFAULT_AFFINITY if affinity is None else affinity
    required = (affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    terms = (required or {}).get("nodeSelectorTerms", [])
    if required and not any(_matches_term(term, labels) for term in terms):
        keys = sorted({e["key"] for term in terms for e in term.get("matchExpressions") or []})
        return f"its node affinity matches none of the node's labels (it looks at {', '.join(keys)})"
    tolerations = values.get("tolerations") if values.get("tolerations") is not None else _DEFAULT_TOLERATIONS
    for taint in taints:
        if taint["effect"] != "PreferNoSchedule" and not any(_tolerates(t, taint) for t in tolerations or []):
            return f"it does not tolerate the taint {taint['key']}={taint.get('value', '')}:{taint['effect']}"
    return None


def _config(values: Mapping[str, Any], labels: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the configuration that the node's label selects. Raises ValueError."""
    config = values.get("config") or {}
    known = config.get("map") or {}
    name = labels.get(CONFIG_LABEL) or config.get("default") or ""
    if not known:
        if name:
            raise ValueError(f"label {CONFIG_LABEL}={name}, but the release defines no configurations (config.map)")
        return {}
    if not name:
        if len(known) > 1:
            raise ValueError("config.map has several configurations and config.default names none of them")
        name = next(iter(known))
    if name not in known:
        raise ValueError(f"label {CONFIG_LABEL}={name} names no configuration; there are {', '.join(sorted(known))}")
    document = yaml.safe_load(known[name]) if isinstance(known[name], str) else known[name]
    return document or {}


def _instances(config: Mapping[str, Any], gpus: int, profile: str, instances: int) -> Advertisement:
    """Return the plugin's offer for partitioned GPUs, which no longer count as whole GPUs."""
    strategy = (config.get("flags") or {}).get("migStrategy", "none")
    if strategy == "none":
        return Advertisement(
            {}, "MIG has cut its GPUs, and with migStrategy: none the plugin offers whole ones, which nobody can use"
        )
    if config.get("sharing"):
        return Advertisement({}, "its configuration shares what MIG has cut, which the twin does not know")
    return Advertisement({GPU if strategy == "single" else f"{MIG_PREFIX}{profile}": gpus * instances})


def _offer(sharing: Mapping[str, Any], values: Mapping[str, Any], labels: Mapping[str, str], gpus: int) -> dict[str, int]:
    strategies = [name for name in ("timeSlicing", "mps") if sharing.get(name)]
    if not strategies:
        return {GPU: gpus}
    if len(strategies) > 1:
        raise ValueError("a configuration cannot share GPUs both by time-slicing and by MPS")
    discovery = bool((values.get("gfd") or {}).get("enabled"))
    if strategies == ["mps"] and not discovery and labels.get(MPS_LABEL) != "true":
        raise ValueError(f"MPS needs the label {MPS_LABEL}=true, which GPU feature discovery (gfd.enabled) sets")
    section = sharing[strategies[0]]
    entry = next((r for r in section.get("resources") or [] if r.get("name") == GPU), None)
    if entry is None:
        return {GPU: gpus}
    replicas = entry.get("replicas")
    if not isinstance(replicas, int) or replicas < 2:
        raise ValueError(f"sharing.{strategies[0]}: replicas must be a whole number of at least 2, and is {replicas!r}")
    name = f"{GPU}.shared" if section.get("renameByDefault") else GPU
    return {name: gpus * replicas}


def _matches_term(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    expressions = term.get("matchExpressions") or []
    return bool(expressions) and all(_matches(e, labels) for e in expressions)


def _matches(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values") or []
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and value.isdigit() and int(value) > int(values[0])
        case "Lt":
            return value is not None and value.isdigit() and int(value) < int(values[0])
    return False


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, str]) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    key, operator = toleration.get("key"), toleration.get("operator", "Equal")
    if operator == "Exists":
        return key in (None, "", taint["key"])
    return key == taint["key"] and toleration.get("value", "") == taint.get("value", "")
