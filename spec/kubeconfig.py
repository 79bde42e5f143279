"""The kubeconfig of an EKS cluster, as `aws eks update-kubeconfig` writes it: a token is made whenever one is needed."""

from __future__ import annotations

from typing import Any


def of_eks(name: str, region: str, endpoint: str, authority: str, proxy_url: str | None = None) -> dict[str, Any]:
    """Return the document; the credentials are those of whoever uses it.

    `authority` is the cluster's certificate authority in base64. With `proxy_url` the API server is asked through that
    proxy; it keeps its real name, and so its certificate is checked as ever.
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
