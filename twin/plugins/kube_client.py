"""A small client of the Kubernetes API, on the standard library.

The official Python client takes over a second to import, longer than a whole preview of ours needs the API server for.
"""

from __future__ import annotations

import base64
import http.client
import json
import queue
import ssl
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from twin.plugins.errors import PluginError
from twin.plugins.loopback import require_loopback

READ_SECONDS = 60.0
"""How long one answer may take; the API server's own limit for ordinary requests is 60 s."""

APPLY = "application/apply-patch+yaml"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

Object = dict[str, Any]


class Unreachable(PluginError):
    """The API server does not answer."""


class ApiError(PluginError):
    """The API server's answer was an error: ``status`` is the HTTP code, ``reason`` the API's own (``AlreadyExists``)."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


@dataclass(frozen=True)
class ApiResource:
    """One served kind: the name in its path (``deployments``) and whether it has a namespace."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool

    def path(self, namespace: str | None, name: str | None = None) -> str:
        """The path of an object, or of the collection."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        scope = f"/namespaces/{quote(namespace, safe='')}" if self.namespaced and namespace else ""
        return f"{root}{scope}/{self.plural}" + (f"/{quote(name, safe='')}" if name else "")


class KubeClient:
    """Connections to the API server of one kubeconfig, shared by threads. The server must be on loopback."""

    def __init__(self, kubeconfig: Mapping[str, Any]) -> None:
        """Raises PluginError for a kubeconfig that is incomplete, not local, or wants to run a program for credentials."""
        cluster, user, self.namespace = _current(kubeconfig)
        self.server = require_loopback(str(cluster.get("server", "")), "the kubeconfig's server")
        if "exec" in user or "auth-provider" in user:
            raise PluginError(
                "the kubeconfig gets its credentials from a program, as EKS's does; the twin's clusters have certificates"
            )
        self._headers = {"Accept": "application/json"}
        if "token" in user:
            self._headers["Authorization"] = f"Bearer {user['token']}"
        self._tls = _tls(cluster, user) if self.server.startswith("https:") else None
        self._idle: queue.LifoQueue[http.client.HTTPConnection] = queue.LifoQueue()
        self._kinds: dict[tuple[str, str], ApiResource] | None = None
        self._kinds_lock = threading.Lock()

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        content_type: str = "application/json",
        accept: str | None = None,
    ) -> Object:
        """The answer as an object. Raises ApiError for an answer that is an error, Unreachable for none."""
        target = f"{path}?{urlencode(query)}" if query else path
        headers = dict(self._headers)
        if accept:
            headers["Accept"] = accept
        payload = None
        if body is not None:
            payload = json.dumps(body).encode()
            headers["Content-Type"] = content_type
        status, content = self._exchange(method, target, payload, headers)
        try:
            answer: Object = json.loads(content) if content else {}
        except ValueError:
            answer = {"message": content.decode(errors="replace").strip()}
        if status >= 400:
            raise ApiError(status, answer.get("reason", ""), answer.get("message") or f"HTTP status {status}")
        return answer

    def get(self, path: str) -> Object | None:
        """The object at a path; None when there is none."""
        try:
            return self.request("GET", path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def version(self) -> str:
        """The server's version, such as ``v1.36.2``."""
        return str(self.request("GET", "/version")["gitVersion"])

    def kind(self, api_version: str, kind: str) -> ApiResource | None:
        """How a kind is served; None when it is not, which is asked anew each time: its CRD may just have been made."""
        with self._kinds_lock:
            if self._kinds is None or (api_version, kind) not in self._kinds:
                self._kinds = self._discover()
            return self._kinds.get((api_version, kind))

    def api_versions(self) -> list[str]:
        """What charts see as ``.Capabilities.APIVersions``: group versions, and kinds in them."""
        with self._kinds_lock:
            self._kinds = self._kinds or self._discover()
            kinds = list(self._kinds)
        return sorted({version for version, _ in kinds} | {f"{version}/{kind}" for version, kind in kinds})

    def _discover(self) -> dict[tuple[str, str], ApiResource]:
        found: dict[tuple[str, str], ApiResource] = {}
        for root in ("/api", "/apis"):
            for group in self.request("GET", root, accept=DISCOVERY).get("items", []):
                name = group["metadata"].get("name", "")
                for version in group.get("versions", []):
                    api_version = f"{name}/{version['version']}" if name else version["version"]
                    for served in version.get("resources", []):
                        kind = served["responseKind"]["kind"]
                        found[api_version, kind] = ApiResource(
                            api_version, kind, served["resource"], served["scope"] == "Namespaced"
                        )
        return found

    def _exchange(self, method: str, target: str, payload: bytes | None, headers: Mapping[str, str]) -> tuple[int, bytes]:
        try:
            connection = self._idle.get_nowait()
        except queue.Empty:
            return self._send(self._connect(), method, target, payload, headers)
        try:
            return self._send(connection, method, target, payload, headers)
        except Unreachable:
            # The server may have closed an idle connection; only a fresh one tells whether it is there.
            return self._send(self._connect(), method, target, payload, headers)

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        payload: bytes | None,
        headers: Mapping[str, str],
    ) -> tuple[int, bytes]:
        try:
            connection.request(method, target, body=payload, headers=dict(headers))
            response = connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Unreachable(
                f"the Kubernetes API server at {self.server} does not answer ({error or type(error).__name__}): "
                "start the twin with `make up`"
            ) from error
        self._idle.put(connection)
        return response.status, content

    def _connect(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.server)
        host = parts.hostname or ""
        if self._tls is None:
            return http.client.HTTPConnection(host, parts.port, timeout=READ_SECONDS)
        return http.client.HTTPSConnection(host, parts.port, timeout=READ_SECONDS, context=self._tls)


def parse_kubeconfig(text: str) -> dict[str, Any]:
    """A kubeconfig from its content (JSON or YAML) or the path of its file. Raises PluginError."""
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


def _current(config: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any], str]:
    """Cluster, user and namespace of the current context."""
    name = config.get("current-context")
    context = _named(config, "contexts", name).get("context", {})
    cluster = _named(config, "clusters", context.get("cluster")).get("cluster", {})
    user = _named(config, "users", context.get("user")).get("user", {})
    return cluster, user, context.get("namespace") or "default"


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
        # The ssl module takes a client certificate from files only.
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
