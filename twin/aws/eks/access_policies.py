"""EKS access policies: their permissions, and whether they allow a request.

The rules are AWS's tables: https://docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html. EKS evaluates
them in its own authorizer. Neither EKS nor the twin has RBAC objects for them.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_ALL = ("*",)
_CORE = ("",)
_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")


@dataclass(frozen=True)
class Rule:
    """One table row: verbs on resources of API groups, or on non-resource paths."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    def allows(self, request: Mapping[str, Any]) -> bool:
        """Return whether the rule covers the request (spec of a SubjectAccessReview)."""
        resource, other = request.get("resourceAttributes"), request.get("nonResourceAttributes")
        if resource is not None:
            name = "/".join(filter(None, (resource.get("resource", ""), resource.get("subresource", ""))))
            return (
                _among(resource.get("verb", ""), self.verbs)
                and _among(resource.get("group", ""), self.groups)
                and _among(name, self.resources)
            )
        return other is not None and _among(other.get("verb", ""), self.verbs) and _among(other.get("path", ""), self.paths)


def _core(verbs: tuple[str, ...], *resources: str) -> Rule:
    return Rule(verbs, _CORE, resources)


_WORKLOADS = ("daemonsets", "deployments", "deployments/scale", "replicasets", "replicasets/scale")
_WORKLOAD_STATUSES = ("daemonsets/status", "deployments/status", "replicasets/status")
_OLD_NETWORK = ("ingresses", "networkpolicies", "replicationcontrollers/scale")
_STATEFUL = ("statefulsets", "statefulsets/scale")
_POD_CONNECTIONS = ("pods/attach", "pods/exec", "pods/portforward", "pods/proxy")

_VIEW = (
    Rule(_READ, ("apps",), ("controllerrevisions", *_WORKLOADS, *_WORKLOAD_STATUSES, *_STATEFUL, "statefulsets/status")),
    Rule(_READ, ("autoscaling",), ("horizontalpodautoscalers", "horizontalpodautoscalers/status")),
    Rule(_READ, ("batch",), ("cronjobs", "cronjobs/status", "jobs", "jobs/status")),
    Rule(_READ, ("discovery.k8s.io",), ("endpointslices",)),
    Rule(_READ, ("extensions",), (*_WORKLOADS, *_WORKLOAD_STATUSES, *_OLD_NETWORK, "ingresses/status")),
    Rule(_READ, ("networking.k8s.io",), ("ingresses", "ingresses/status", "networkpolicies")),
    Rule(_READ, ("policy",), ("poddisruptionbudgets", "poddisruptionbudgets/status")),
    _core(_READ, "configmaps", "endpoints", "persistentvolumeclaims", "persistentvolumeclaims/status", "pods"),
    _core(_READ, "replicationcontrollers", "replicationcontrollers/scale", "serviceaccounts", "services", "services/status"),
    _core(_READ, "bindings", "events", "limitranges", "namespaces/status", "pods/log", "pods/status"),
    _core(_READ, "replicationcontrollers/status", "resourcequotas", "resourcequotas/status", "namespaces"),
)
_EDIT = (
    *_VIEW,
    Rule(_WRITE, ("apps",), (*_WORKLOADS, "deployments/rollback", *_STATEFUL)),
    Rule(_WRITE, ("autoscaling",), ("horizontalpodautoscalers",)),
    Rule(_WRITE, ("batch",), ("cronjobs", "jobs")),
    Rule(_WRITE, ("extensions",), (*_WORKLOADS, "deployments/rollback", *_OLD_NETWORK)),
    Rule(_WRITE, ("networking.k8s.io",), ("ingresses", "networkpolicies")),
    Rule(_WRITE, ("policy",), ("poddisruptionbudgets",)),
    _core(_READ, *_POD_CONNECTIONS, "secrets", "services/proxy"),
    _core(_WRITE, "pods", *_POD_CONNECTIONS),
    _core(
        _WRITE, "configmaps", "events", "persistentvolumeclaims", "replicationcontrollers", "replicationcontrollers/scale"
    ),
    _core(_WRITE, "secrets", "serviceaccounts", "services", "services/proxy"),
    _core(("impersonate",), "serviceaccounts"),
)
_ADMIN = (
    *_EDIT,
    Rule(("create",), ("authorization.k8s.io",), ("localsubjectaccessreviews",)),
    Rule((*_READ, *_WRITE), ("rbac.authorization.k8s.io",), ("rolebindings", "roles")),
)
POLICIES: Mapping[str, tuple[Rule, ...]] = {
    "AmazonEKSAdminPolicy": _ADMIN,
    "AmazonEKSAdminViewPolicy": (Rule(_READ, _ALL, _ALL),),
    "AmazonEKSClusterAdminPolicy": (Rule(_ALL, _ALL, _ALL), Rule(_ALL, paths=_ALL)),
    "AmazonEKSEditPolicy": _EDIT,
    "AmazonEKSViewPolicy": _VIEW,
}


def allowing(associations: Iterable[Mapping[str, Any]], request: Mapping[str, Any]) -> str | None:
    """Return the first associated policy that allows the request (spec of a SubjectAccessReview), or None."""
    for association in associations:
        policy = association["policyArn"].rpartition("/")[2]
        if _in_scope(association["accessScope"], request) and any(rule.allows(request) for rule in POLICIES[policy]):
            return str(policy)
    return None


def _in_scope(scope: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    if scope["type"] == "cluster":
        return True
    namespace = (request.get("resourceAttributes") or {}).get("namespace")
    return bool(namespace) and any(fnmatch.fnmatchcase(namespace, pattern) for pattern in scope["namespaces"])


def _among(value: str, allowed: tuple[str, ...]) -> bool:
    return "*" in allowed or value in allowed
