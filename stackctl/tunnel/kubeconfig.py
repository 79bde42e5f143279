"""A kubeconfig of the tunnel's own, so that nobody's ~/.kube/config is changed."""

from __future__ import annotations

import json

from stackctl.account.api_server import ApiServer


def text(region: str, server: ApiServer, proxy_port: int) -> str:
    """Return it as JSON, which is YAML: what `aws eks update-kubeconfig` writes, and the proxy.

    The server keeps its real name, and so its certificate is checked as ever. Credentials are those of who runs kubectl.
    """
    name = server.cluster
    arguments = ["--region", region, "eks", "get-token", "--cluster-name", name, "--output", "json"]
    credentials = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "aws", "args": arguments}
    cluster = {
        "server": server.endpoint,
        "certificate-authority-data": server.authority,
        "proxy-url": f"http://127.0.0.1:{proxy_port}",
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"exec": credentials}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    return json.dumps(document, indent=1)
