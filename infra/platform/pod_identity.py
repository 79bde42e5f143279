"""Environment and token of Pod Identity, set by the chart: EKS's webhook adds them only if it knows the association in time.

An association takes effect some seconds after the API has returned it. The webhook adds nothing to a pod that is admitted
earlier, and a restart of its containers is no second admission: such a pod has no credentials for ever. With these values it
has all it needs from the start. Its container fails until the agent on its node knows the association, and is then restarted
with credentials. In a pod that has them the webhook changes nothing (`addEnvToContainer` and `getPodSpecPatch` in
https://github.com/aws/amazon-eks-pod-identity-webhook/blob/master/pkg/handler/handler.go; the names are the defaults of
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
"""The variables of a container: the agent on its node (by IPv4), and the file of the token."""


def environment() -> list[dict[str, str]]:
    """Return the variables as a container has them."""
    return [{"name": name, "value": value} for name, value in VARIABLES.items()]


def mounts() -> list[dict[str, Any]]:
    """Return the mount of the container's token."""
    return [{"name": _VOLUME, "mountPath": _DIRECTORY, "readOnly": True}]


def volumes() -> list[dict[str, Any]]:
    """Return the volume with the token that the agent exchanges for credentials."""
    token = {"audience": _AUDIENCE, "expirationSeconds": _LIFETIME_SECONDS, "path": _VOLUME}
    return [{"name": _VOLUME, "projected": {"sources": [{"serviceAccountToken": token}]}}]


def extra() -> dict[str, Any]:
    """Return token volume and mount as values of the charts that call them `extraVolumes` and `extraVolumeMounts`."""
    return {"extraVolumes": volumes(), "extraVolumeMounts": mounts()}
