"""The service accounts of a chart whose programs run here, with their rights, from the Go module of those programs.

As in chart_crds.py: the charts cannot be had everywhere, and the module has the very rights that its programs need.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twin.charts import chart_crds
from twin.host.tools import ToolError
from twin.identity import irsa

Object = dict[str, Any]

_FILES: Mapping[str, tuple[str, ...]] = {
    "keda": (
        "config/service_account/service_account.yaml",
        "config/rbac/role.yaml",
        "config/rbac/role_binding.yaml",
        "config/metrics-server/role.yaml",
        "config/metrics-server/role_binding.yaml",
    ),
    "prometheus-adapter": (
        "deploy/manifests/service-account.yaml",
        "deploy/manifests/cluster-role.yaml",
        "deploy/manifests/cluster-role-binding.yaml",
        "deploy/manifests/cluster-role-binding-delegator.yaml",
        "deploy/manifests/role-binding-auth-reader.yaml",
    ),
}
"""Files of the module, by the chart's name, in the order in which they are applied."""
_MODULE_NAMESPACES = {"keda": "keda", "prometheus-adapter": "monitoring"}
"""Where those files put what is of the program alone."""


def accounts(chart: str, namespace: str, values: Mapping[str, Any]) -> list[Object]:
    """The objects of a release in `namespace` with these values; none for a chart that has no programs. Raises ToolError."""
    import yaml

    objects: list[Object] = []
    for name in _FILES.get(chart, ()):
        file = chart_crds.folder(chart) / name
        if not file.exists():
            raise ToolError(
                f"the Go module of the chart {chart} has no {name}: twin/charts/chart_accounts.py wants another file"
            )
        objects += [document for document in yaml.safe_load_all(file.read_text(encoding="utf-8")) if document]
    for item in objects:
        _move(item, _MODULE_NAMESPACES[chart], namespace)
        if item["kind"] == "ServiceAccount":
            item["metadata"]["annotations"] = _annotations(values)
    return objects


def _move(item: Object, source: str, target: str) -> None:
    if item["kind"].startswith("Cluster"):  # of no namespace, whatever the file says
        item["metadata"].pop("namespace", None)
    for place in (item["metadata"], *item.get("subjects", ())):
        if place.get("namespace") == source:
            place["namespace"] = target


def _annotations(values: Mapping[str, Any]) -> dict[str, str]:
    """What KEDA's chart makes of `podIdentity.aws.irsa`: docs/facts/scaling.md#identity-of-a-trigger."""
    given = ((values.get("podIdentity") or {}).get("aws") or {}).get("irsa") or {}
    return {irsa.ROLE_ANNOTATION: str(given["roleArn"])} if given.get("enabled") and given.get("roleArn") else {}
