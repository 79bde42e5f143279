"""Objects of the gateway in a cluster, as the program creates them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twin.cluster.kube_api import KubeClient, object_path
from twin.plugins.kube_objects import FIELD_MANAGER

_PLURALS = {
    "BackendTrafficPolicy": "backendtrafficpolicies",
    "ClientTrafficPolicy": "clienttrafficpolicies",
    "SecurityPolicy": "securitypolicies",
}


def apply(kube: KubeClient, manifest: Mapping[str, Any]) -> None:
    """Apply an object as the program's provider does, so a field that it no longer has is removed."""
    kube.apply(path(manifest["kind"], manifest["apiVersion"], manifest["metadata"]), dict(manifest), manager=FIELD_MANAGER)


def path(kind: str, api_version: str, metadata: Mapping[str, Any]) -> str:
    plural = _PLURALS.get(kind, f"{kind.lower()}s")
    return object_path(api_version, plural, metadata.get("namespace"), metadata["name"])
