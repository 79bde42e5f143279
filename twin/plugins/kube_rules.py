"""Rules of Kubernetes objects that need no server: names, scopes, and changes that replace an object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twin.plugins import differences
from twin.plugins.autonaming import autoname
from twin.plugins.differences import Path
from twin.plugins.errors import Failure
from twin.plugins.values import UNKNOWN, Values

AUTONAMED = "pulumi.com/autonamed"
PATCH_FORCE = "pulumi.com/patchForce"
PROPAGATION = "pulumi.com/deletionPropagationPolicy"
SKIP_AWAIT = "pulumi.com/skipAwait"
TIMEOUT = "pulumi.com/timeoutSeconds"
WAIT_FOR = "pulumi.com/waitFor"

NAME_DIGITS = 8
"""Hex digits of an autoname, as in the official provider."""

CLUSTER_SCOPED = frozenset(
    {
        "APIService",
        "ClusterRole",
        "ClusterRoleBinding",
        "CSIDriver",
        "CustomResourceDefinition",
        "IngressClass",
        "MutatingWebhookConfiguration",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PriorityClass",
        "RuntimeClass",
        "StorageClass",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
        "VolumeAttachment",
    }
)
"""Built-in kinds without a namespace, for previews without an API server."""

IMMUTABLE: dict[tuple[str, str], tuple[Path, ...]] = {
    ("apps", "DaemonSet"): (("spec", "selector"),),
    ("apps", "Deployment"): (("spec", "selector"),),
    ("apps", "ReplicaSet"): (("spec", "selector"),),
    ("apps", "StatefulSet"): (
        ("spec", "podManagementPolicy"),
        ("spec", "selector"),
        ("spec", "serviceName"),
        ("spec", "volumeClaimTemplates"),
    ),
    ("batch", "Job"): (("spec", "completionMode"), ("spec", "selector"), ("spec", "template")),
    ("", "PersistentVolumeClaim"): (
        ("spec", "accessModes"),
        ("spec", "selector"),
        ("spec", "storageClassName"),
        ("spec", "volumeName"),
    ),
    ("", "PersistentVolume"): (("spec", "csi"), ("spec", "hostPath"), ("spec", "local"), ("spec", "nfs")),
    ("", "Pod"): (("spec",),),
    ("", "Service"): (("spec", "clusterIP"),),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): (("roleRef",),),
    ("rbac.authorization.k8s.io", "RoleBinding"): (("roleRef",),),
    ("scheduling.k8s.io", "PriorityClass"): (("value",),),
    ("storage.k8s.io", "StorageClass"): (("parameters",), ("provisioner",), ("reclaimPolicy",), ("volumeBindingMode",)),
}
"""Fields that the API server refuses to change, by group and kind."""

CONFIG_FIELDS: dict[str, tuple[Path, ...]] = {
    "ConfigMap": (("binaryData",), ("data",)),
    "Secret": (("data",), ("stringData",), ("type",)),
}
"""Replaced on change, like the official provider without ``enableConfigMapMutable`` and ``enableSecretMutable``."""


def group_of(api_version: Any) -> str:
    """Return ``apps`` for ``apps/v1``, "" for ``v1``."""
    return str(api_version).rpartition("/")[0]


def manifest(inputs: Mapping[str, Any]) -> Values:
    """Return the object to send: the inputs without the provider's own keys."""
    return {key: value for key, value in inputs.items() if not key.startswith("__")}


def problems(type_token: str, inputs: Mapping[str, Any]) -> list[Failure]:
    """Return the problems of an object that are visible without a server."""
    failures = [
        Failure(key, f"{type_token} needs {key}; the twin takes it from the inputs (twin/plugins/kubernetes.py)")
        for key in ("apiVersion", "kind")
        if not isinstance(inputs.get(key), str)
    ]
    kind = type_token.rpartition(":")[2]
    if not failures and kind != inputs["kind"]:
        failures.append(Failure("kind", f"{type_token} is not a plain {inputs['kind']}: extend twin/plugins/kubernetes.py"))
    metadata = inputs.get("metadata")
    if metadata is not None and metadata != UNKNOWN and not isinstance(metadata, Mapping):
        failures.append(Failure("metadata", "must be a mapping"))
    return failures


def with_name(inputs: Mapping[str, Any], old: Mapping[str, Any], logical: str, seed: bytes) -> Values:
    """Return the inputs with ``metadata.name``: the autoname of the last deployment, else a new one, marked as such."""
    metadata = inputs.get("metadata") or {}
    if metadata == UNKNOWN or metadata.get("name") or metadata.get("generateName"):
        return dict(inputs)
    kept = (old.get("metadata") or {}).get("name") if autonamed(old) else None
    annotations = metadata.get("annotations")
    named = {**metadata, "name": kept or autoname(logical, seed, NAME_DIGITS)}
    if annotations != UNKNOWN:
        named["annotations"] = {**(annotations or {}), AUTONAMED: "true"}
    return {**inputs, "metadata": named}


def with_namespace(inputs: Mapping[str, Any], namespaced: bool, default: str) -> Values:
    """Return the inputs with ``metadata.namespace`` if the kind has one."""
    metadata = inputs.get("metadata") or {}
    if not namespaced or metadata == UNKNOWN or metadata.get("namespace"):
        return dict(inputs)
    return {**inputs, "metadata": {**metadata, "namespace": default}}


def autonamed(inputs: Mapping[str, Any]) -> bool:
    """Return whether the provider generated the object's name."""
    return annotation(inputs, AUTONAMED) == "true"


def annotation(inputs: Mapping[str, Any], key: str) -> str | None:
    """Return one annotation; None if it is absent or not known yet."""
    metadata = inputs.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    value = annotations.get(key) if isinstance(annotations, Mapping) else None
    return None if value == UNKNOWN else value


def outputs(live: Mapping[str, Any]) -> Values:
    """Return the live object without the server's field owners, which are larger than the object."""
    metadata = {key: value for key, value in live["metadata"].items() if key != "managedFields"}
    return {**live, "metadata": metadata}


def object_id(inputs: Mapping[str, Any]) -> str:
    """Return ``<namespace>/<name>``, or ``<name>`` without a namespace."""
    metadata = inputs["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def split_id(id: str) -> tuple[str | None, str]:
    """Return namespace and name of an id."""
    namespace, _, name = id.rpartition("/")
    return namespace or None, name


def replacing(old: Mapping[str, Any], new: Mapping[str, Any], mutable: frozenset[str]) -> list[Path]:
    """Return the paths whose change replaces the object. ``mutable``: the kinds of CONFIG_FIELDS that change in place."""
    paths: list[Path] = [("kind",), ("metadata", "name"), ("metadata", "namespace")]
    group, kind = group_of(new.get("apiVersion")), str(new.get("kind"))
    if group_of(old.get("apiVersion")) != group:
        paths.append(("apiVersion",))
    paths += IMMUTABLE.get((group, kind), ())
    if group == "" and kind not in mutable:
        paths += CONFIG_FIELDS.get(kind, ())
    return paths


def must_go_first(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Return whether the replacement has the same kind, namespace and name, so that the old object must be deleted first.

    An autonamed object gets a new name when it is replaced.
    """
    if autonamed(new):
        return False
    before, after = old.get("metadata") or {}, new.get("metadata") or {}
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return False
    return (
        old.get("kind") == new.get("kind")
        and differences.same(before.get("name"), after.get("name"))
        and differences.same(before.get("namespace"), after.get("namespace"))
    )
