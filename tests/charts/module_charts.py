"""Third-party charts from the Go modules of their programs, for tests that render our values with real charts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.policies.case import Case
from tests.policies.judging import judge
from triton_policies.workloads import CLUSTER_ROLE
from twin.charts.registry import CHARTS
from twin.releases import go_module


def module(chart: str) -> Path:
    """Return the root of the module that ships a chart of `charts.registry.CHARTS`. Raises ToolError if unavailable."""
    return go_module.folder(CHARTS[chart])


def readers_of_secrets(objects: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of the ClusterRoles that the policy `rbac-no-cluster-secrets` refuses."""
    roles = [item for item in objects if item["kind"] == "ClusterRole"]
    case = Case("rbac-no-cluster-secrets", CLUSTER_ROLE, {}, (), None)
    return [role["metadata"]["name"] for role in roles if judge(case, {"rules": role.get("rules") or []}).told]


def unknown(values: Mapping[str, Any], known: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Return the paths of our values that are missing from a chart's own values.yaml.

    Helm accepts any key, so a misspelt key changes nothing. An empty value in `known` may hold anything.
    """
    for key, value in values.items():
        if key not in known:
            yield f"{path}{key}"
        elif isinstance(value, Mapping) and known[key]:
            yield from unknown(value, known[key], f"{path}{key}.")
