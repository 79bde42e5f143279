"""Kubeconfigs: the one given to the kubernetes provider, and a client of its cluster."""

from __future__ import annotations

import base64
import json
import os
import shlex
import ssl
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twin.plugins.errors import PluginError
from twin.plugins.loopback import require_loopback

if TYPE_CHECKING:
    from twin.cluster.kube_api import KubeClient


LOST_ACCOUNT = {"TWIN_LOST_ACCOUNT": "true"}
"""The environment of an engine whose AWS account was lost with moto, so that no token exists for its clusters."""


def connect(kubeconfig: Mapping[str, Any]) -> KubeClient:
    """Return a client of the cluster of the current context, as its user.

    Raises PluginError for a kubeconfig that is incomplete or not local, or that runs another program than `aws`.
    """
    # Imported here, because its HTTP library takes long to import, and the eks provider only reads the file.
    from twin.cluster.kube_api import KubeClient

    context = _current(kubeconfig)
    cluster = _named(kubeconfig, "clusters", context.get("cluster")).get("cluster", {})
    user = _named(kubeconfig, "users", context.get("user")).get("user", {})
    server = require_loopback(str(cluster.get("server", "")), "the kubeconfig's server")
    tls = _tls(cluster, user) if server.startswith("https:") else None
    if "exec" in user:
        if not _is_eks_token(user["exec"]):
            command = shlex.join([str(user["exec"].get("command")), *map(str, user["exec"].get("args") or ())])
            raise PluginError(f"the kubeconfig's user runs `{command}`; the twin runs only `aws eks get-token`")
        from twin.plugins.exec_credentials import ExecCredentials

        return KubeClient(server, tls, auth=ExecCredentials(user["exec"]))
    return KubeClient(server, tls, user.get("token"))


def twin_kubeconfig() -> dict[str, Any]:
    """Return the kubeconfig of the twin that ``TWIN_HOME`` names; all clusters of its account share it."""
    from twin.host.home import TwinHome

    path = TwinHome.from_environment().load_endpoints().kubeconfig
    if not path:
        raise PluginError("the twin has no Kubernetes control plane yet: start it with `make up`")
    return parse_kubeconfig(path)


def of_eks(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Return the kubeconfig of a cluster with these outputs, as written by pulumi-eks: a token of `aws eks get-token`.

    If the cluster does not exist yet or belongs to another account, no token can exist for it. Return the twin's own
    kubeconfig then, whose user has a certificate. The form is `generateKubeconfig` in
    https://github.com/pulumi/pulumi-eks/blob/v4.3.0/nodejs/eks/cluster/cluster.ts.
    """
    if not _is_own(cluster.get("endpoint")):
        return twin_kubeconfig()
    region = cluster["arn"].split(":")[3]
    credentials = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "aws",
        "args": ["--region", region, "eks", "get-token", "--cluster-name", cluster["name"], "--output", "json"],
        "env": [{"name": "KUBERNETES_EXEC_INFO", "value": '{"apiVersion": "client.authentication.k8s.io/v1beta1"}'}],
    }
    server = {"server": cluster["endpoint"], "certificate-authority-data": cluster["certificateAuthority"]["data"]}
    return {
        "apiVersion": "v1",
        "clusters": [{"cluster": server, "name": "kubernetes"}],
        "contexts": [{"context": {"cluster": "kubernetes", "user": "aws"}, "name": "aws"}],
        "current-context": "aws",
        "kind": "Config",
        "users": [{"name": "aws", "user": {"exec": credentials}}],
    }


def instead_of_another(kubeconfig: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the twin's own kubeconfig instead of a foreign EKS cluster's.

    Such a cluster is in the state of a real stack, or in a lost account. Other kubeconfigs are returned unchanged.
    """
    context = _current(kubeconfig)
    command = _named(kubeconfig, "users", context.get("user")).get("user", {}).get("exec", {})
    server = _named(kubeconfig, "clusters", context.get("cluster")).get("cluster", {}).get("server")
    is_lost = LOST_ACCOUNT.items() <= os.environ.items()
    return twin_kubeconfig() if _is_eks_token(command) and (is_lost or not _is_own(server)) else kubeconfig


def _is_eks_token(command: Mapping[str, Any]) -> bool:
    """Return whether a kubeconfig's `exec` is `aws eks get-token`, with any of its options."""
    return command.get("command") == "aws" and [*_words(command.get("args") or ())][:2] == ["eks", "get-token"]


def _words(args: Sequence[str]) -> Iterator[str]:
    """Yield the arguments of `aws` without the options before and between them, each of which has a value."""
    remaining = iter(map(str, args))
    for word in remaining:
        if not word.startswith("-"):
            yield word
        elif "=" not in word:
            next(remaining, None)


def _is_own(server: Any) -> bool:
    from twin.host.home import TwinHome

    return server is not None and server == TwinHome.from_environment().load_endpoints().api_server_url


def namespace(kubeconfig: Mapping[str, Any]) -> str:
    """Return the namespace of the current context. Raises PluginError if the context does not exist."""
    return _current(kubeconfig).get("namespace") or "default"


def parse_kubeconfig(text: str) -> dict[str, Any]:
    """Return a kubeconfig from its content (JSON or YAML) or the path of its file. Raises PluginError."""
    if "\n" not in text and not text.lstrip().startswith("{"):
        path = Path(text).expanduser()
        try:
            text = path.read_text()
        except OSError as error:
            raise PluginError(f"kubeconfig {path}: {error.strerror}") from error
    try:
        config = json.loads(text)
    except ValueError:
        import yaml

        try:
            config = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise PluginError(f"the kubeconfig is neither JSON nor YAML: {error}") from error
    if not isinstance(config, dict):
        raise PluginError("the kubeconfig is empty or not a mapping")
    return config


def _current(config: Mapping[str, Any]) -> Mapping[str, Any]:
    context: Mapping[str, Any] = _named(config, "contexts", config.get("current-context")).get("context", {})
    return context


def _named(config: Mapping[str, Any], section: str, name: Any) -> Mapping[str, Any]:
    for entry in config.get(section) or []:
        if entry.get("name") == name:
            return dict(entry)
    raise PluginError(f"the kubeconfig has no {name!r} among its {section}")


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
    authority = _pem(cluster, "certificate-authority")
    context = ssl.create_default_context(cadata=authority or None)
    certificate, key = _pem(user, "client-certificate"), _pem(user, "client-key")
    if certificate and key:
        # The ssl module reads a client certificate only from files.
        with tempfile.TemporaryDirectory() as folder:
            chain, private = Path(folder, "client.crt"), Path(folder, "client.key")
            chain.write_text(certificate)
            private.touch(mode=0o600)
            private.write_text(key)
            context.load_cert_chain(chain, private)
    return context


def _pem(section: Mapping[str, Any], key: str) -> str:
    if f"{key}-data" in section:
        return base64.b64decode(section[f"{key}-data"]).decode()
    return Path(section[key]).read_text() if key in section else ""
