"""Pod specs inside the kinds that create pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from triton_policies.reading import Property
from triton_policies.resources import Resource

DEPLOYMENT = "kubernetes:apps/v1:Deployment"
_TEMPLATES: Mapping[str, str] = {
    DEPLOYMENT: "spec.template",
    "kubernetes:apps/v1:StatefulSet": "spec.template",
    "kubernetes:apps/v1:DaemonSet": "spec.template",
    "kubernetes:apps/v1:ReplicaSet": "spec.template",
    "kubernetes:batch/v1:Job": "spec.template",
    "kubernetes:batch/v1:CronJob": "spec.jobTemplate.spec.template",
}
KINDS = (*_TEMPLATES, "kubernetes:core/v1:Pod")
"""Type tokens of all kinds that create pods."""


def pod_spec(resource: Resource) -> Property:
    """Return the spec of the workload's pods."""
    template = _TEMPLATES.get(resource.type)
    return resource[f"{template}.spec"] if template else resource["spec"]


def pod_labels(resource: Resource) -> Property:
    """Return the labels of the workload's pods."""
    template = _TEMPLATES.get(resource.type)
    return resource[f"{template}.metadata.labels"] if template else resource["metadata.labels"]


def containers(spec: Property) -> Iterator[Property]:
    """Yield all containers, init containers too. Raises NotKnownYet."""
    for key in ("initContainers", "containers"):
        yield from spec[key].elements


def namespace_of(resource: Resource) -> str:
    """Return the object's namespace."""
    return str(resource["metadata.namespace"].value or "default")


def object_name(resource: Resource) -> str:
    """Return the object's name in Kubernetes."""
    return str(resource["metadata.name"].value or resource.name)


def selects(selector: Property, labels: Property) -> bool:
    """Return whether a selector (an empty one selects all) matches the labels. Raises NotKnownYet."""
    wanted = selector["matchLabels"].value or {}
    have = labels.value or {}
    expressions = selector["matchExpressions"].value or []
    return all(have.get(key) == value for key, value in wanted.items()) and all(_fits(one, have) for one in expressions)


def _fits(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = expression.get("key"), expression.get("values") or []
    match expression.get("operator"):
        case "In":
            return labels.get(str(key)) in values
        case "NotIn":
            return labels.get(str(key)) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False
