"""Write the configuration with which the API server reaches the IAM webhooks (twin/aws/access/webhooks.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from spec.files import write_whole
from twin.aws.access import paths
from twin.host.home import TwinHome

CACHE_SECONDS = 2
"""How long the API server caches an answer, and so accepts a principal whose access entry was deleted."""
_TIMEOUT_SECONDS = 30
"""The API server's timeout; the first request to moto on a busy machine takes seconds."""


def write(home: TwinHome, port: int) -> tuple[Path, Path]:
    """Write the configurations of authentication and authorization; return their files. `port` is moto's."""
    files = {name: home.pki / f"eks-{name}.json" for name in ("authentication", "authorization-webhook", "authorization")}
    authorization = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthorizationConfiguration",
        "authorizers": [
            {"type": "Node", "name": "node"},
            {"type": "RBAC", "name": "rbac"},
            {"type": "Webhook", "name": "eks", "webhook": _webhook(files["authorization-webhook"])},
        ],
    }
    home.pki.mkdir(parents=True, exist_ok=True, mode=0o700)
    for file, content in (
        (files["authentication"], _kubeconfig(port, paths.AUTHENTICATION)),
        (files["authorization-webhook"], _kubeconfig(port, paths.AUTHORIZATION)),
        (files["authorization"], authorization),
    ):
        write_whole(file, json.dumps(content).encode())
    return files["authentication"], files["authorization"]


def _webhook(kubeconfig: Path) -> dict[str, Any]:
    return {
        "subjectAccessReviewVersion": "v1",
        "matchConditionSubjectAccessReviewVersion": "v1",
        "timeout": f"{_TIMEOUT_SECONDS}s",
        "authorizedTTL": f"{CACHE_SECONDS}s",
        "unauthorizedTTL": f"{CACHE_SECONDS}s",
        "failurePolicy": "NoOpinion",
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": str(kubeconfig)},
        # Nodes, controllers, pods and the twin's administrator have no access entry, and need not wait for moto.
        "matchConditions": [{"expression": f"has(request.extra) && {paths.ENTRY!r} in request.extra"}],
    }


def _kubeconfig(port: int, path: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "eks", "cluster": {"server": f"http://127.0.0.1:{port}{path}"}}],
        "users": [{"name": "api-server", "user": {}}],
        "contexts": [{"name": "eks", "context": {"cluster": "eks", "user": "api-server"}}],
        "current-context": "eks",
    }
