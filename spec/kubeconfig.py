"""The kubeconfig of an EKS cluster, like the one of `aws eks update-kubeconfig`. kubectl creates a token when it needs
one."""

from __future__ import annotations

from typing import Any


def of_eks(name: str, region: str, endpoint: str, authority: str, proxy_url: str | None = None) -> dict[str, Any]:
    """Return the kubeconfig document, which uses the caller's AWS credentials.

    `authority` is the cluster's certificate authority in base64. With `proxy_url` clients reach the API server through that
    proxy. The server keeps its real name, so its certificate is verified as usual.
    """
    arguments = ["--region", region, "eks", "get-token", "--cluster-name", name, "--output", "json"]
    credentials = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "aws", "args": arguments}
    cluster = {"server": endpoint, "certificate-authority-data": authority}
    if proxy_url is not None:
        cluster["proxy-url"] = proxy_url
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"exec": credentials}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
