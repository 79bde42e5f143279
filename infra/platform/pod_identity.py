"""Environment and token of Pod Identity, set by the charts. EKS's webhook may know the association too late.

An association takes effect some seconds after the API has returned it. The webhook adds nothing to a pod that is admitted
earlier, and restarting its containers does not admit it again: such a pod never gets credentials. With these values the pod
has everything from the start. Its container fails until the agent on its node knows the association, and is then restarted
with credentials. The webhook changes nothing in a pod that already has the values (`addEnvToContainer` and `getPodSpecPatch`
in https://github.com/aws/amazon-eks-pod-identity-webhook/blob/master/pkg/handler/handler.go; the names are the defaults of
its main.go; https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spec.reach import POD_IDENTITY_ADDRESS

_VOLUME = "eks-pod-identity-token"
_DIRECTORY = "/var/run/secrets/pods.eks.amazonaws.com/serviceaccount"
_AUDIENCE = "pods.eks.amazonaws.com"
_LIFETIME_SECONDS = 86400


VARIABLES: Mapping[str, str] = {
    "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://{POD_IDENTITY_ADDRESS}/v1/credentials",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": f"{_DIRECTORY}/{_VOLUME}",
}
"""The environment variables of a container: the URL of the agent on its node (IPv4), and the path of the token."""


def environment() -> list[dict[str, str]]:
    """Return the variables in the form of a container's `env`."""
    return [{"name": name, "value": value} for name, value in VARIABLES.items()]


def mounts() -> list[dict[str, Any]]:
    """Return the mount of the container's token."""
    return [{"name": _VOLUME, "mountPath": _DIRECTORY, "readOnly": True}]


def volumes() -> list[dict[str, Any]]:
    """Return the volume with the token that the agent exchanges for credentials."""
    token = {"audience": _AUDIENCE, "expirationSeconds": _LIFETIME_SECONDS, "path": _VOLUME}
    return [{"name": _VOLUME, "projected": {"sources": [{"serviceAccountToken": token}]}}]


def extra() -> dict[str, Any]:
    """Return token volume and mount as values of charts with the keys `extraVolumes` and `extraVolumeMounts`."""
    return {"extraVolumes": volumes(), "extraVolumeMounts": mounts()}
