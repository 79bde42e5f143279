"""The environment and token with which EKS's webhook gives a container Pod Identity credentials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html
_VARIABLES = {
    "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1/credentials",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": (
        "/var/run/secrets/pods.eks.amazonaws.com/serviceaccount/eks-pod-identity-token"
    ),
}
_TOKEN = {"audience": "pods.eks.amazonaws.com", "expirationSeconds": 86400, "path": "eks-pod-identity-token"}


def assert_credentials(
    environment: Sequence[Mapping[str, Any]] | Mapping[str, str],
    mounts: Sequence[Mapping[str, Any]],
    volumes: Sequence[Mapping[str, Any]],
) -> None:
    """Check a container's variables (list or mapping), its mounts, and its pod's volumes."""
    if not isinstance(environment, Mapping):
        environment = {item["name"]: item.get("value", "") for item in environment}
    assert _VARIABLES.items() <= environment.items()
    directory = "/var/run/secrets/pods.eks.amazonaws.com/serviceaccount"
    (mount,) = [one for one in mounts if one["mountPath"] == directory]
    assert mount["readOnly"] is True
    (volume,) = [one for one in volumes if one["name"] == mount["name"]]
    assert volume["projected"]["sources"] == [{"serviceAccountToken": _TOKEN}]


def assert_pod(pod: Mapping[str, Any]) -> None:
    """Check the first container of a pod."""
    container = pod["containers"][0]
    assert_credentials(container["env"], container["volumeMounts"], pod["volumes"])
