"""The client of the Kubernetes API: plain JSON objects over HTTP, blocking (KubeClient) and for asyncio (KubeApi).

The official package is not used: its import takes over a second, longer than a whole preview needs the API server. Its
server-side apply of plain objects is also not as short as this one.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import ssl
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Collection
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx

from twin.cluster.kube_errors import ApiError, KubeError, Unreachable

Object = dict[str, Any]
FIELD_MANAGER = "twin"
_LONGEST_SECONDS = 60.0
"""The API server's own limit for ordinary requests."""
_TIMEOUT = httpx.Timeout(_LONGEST_SECONDS, connect=5.0)
_ENDLESS = httpx.Timeout(15.0, read=None)
_RETRY_SECONDS = 0.5
_GONE = (404, 409)
"""For a deletion: the object does not exist, or another object has that name now."""
_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

Found = TypeVar("Found")
MaybeFound = TypeVar("MaybeFound")


@dataclass(frozen=True)
class _Request:
    method: str
    path: str
    params: dict[str, str] = field(default_factory=dict)
    body: Object | None = None
    content_type: str = "application/json"
    accept: str = "application/json"
    none_for: Collection[int] = ()
    """The statuses for which the result is None."""

    def arguments(self) -> dict[str, Any]:
        """Return it as arguments of httpx."""
        content = None if self.body is None else json.dumps(self.body)
        headers = {"Accept": self.accept, "Content-Type": self.content_type}
        return {"method": self.method, "url": self.path, "params": self.params, "content": content, "headers": headers}


class _Requests(ABC, Generic[Found, MaybeFound]):
    """The requests of both clients. Paths are the API's own, e.g. `/api/v1/namespaces/triton/pods`.

    `Found` is an object, or an awaitable of an object. Each method raises ApiError for an error response, Unreachable
    without a response.
    """

    def __init__(self, server: str) -> None:
        self.server = server

    @abstractmethod
    def _send(self, request: _Request) -> Any: ...

    def get(self, path: str, **params: str) -> Found:
        """Return an object, or a list."""
        return self._send(_Request("GET", path, params))

    def find(self, path: str, **params: str) -> MaybeFound:
        """Return an object, or a list; None if the object does not exist, or its kind is not defined."""
        return self._send(_Request("GET", path, params, none_for=(404,)))

    def create(self, path: str, body: Object, *, manager: str = FIELD_MANAGER, dry_run: bool = False) -> Found:
        """Create an object in the collection `path`. Raises ApiError for a field that its kind does not have."""
        return self._send(_Request("POST", path, _written(manager, dry_run), body))

    def patch(self, path: str, body: Object, kind: str = "strategic-merge") -> Found:
        """Patch an object. `kind` is `strategic-merge` (lists by their keys, like the kubelet) or `merge`."""
        return self._send(_Request("PATCH", path, {}, body, f"application/{kind}-patch+json"))

    def apply(
        self, path: str, body: Object, *, manager: str = FIELD_MANAGER, force: bool = True, dry_run: bool = False
    ) -> Found:
        """Apply `body` to the object at `path`: create it, or change the fields that `manager` applied before.

        `force` takes over the fields of other managers. Raises ApiError for a field that its kind does not have.
        """
        params = {**_written(manager, dry_run), "force": str(force).lower()}
        return self._send(_Request("PATCH", path, params, body, "application/apply-patch+yaml"))

    def delete(self, path: str, options: Object | None = None) -> MaybeFound:
        """Delete an object; None if it does not exist, or does not match the `options` (DeleteOptions)."""
        body = None if options is None else {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        return self._send(_Request("DELETE", path, {}, body, none_for=_GONE))

    def _unreachable(self, error: Exception) -> Unreachable:
        why = str(error) or type(error).__name__
        return Unreachable(
            f"the Kubernetes API server at {self.server} does not answer ({why}): start the twin with `make up`"
        )


@dataclass(frozen=True)
class ApiResource:
    """One served kind: its name in paths (`deployments`) and whether it has a namespace."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool

    def path(self, namespace: str | None, name: str | None = None) -> str:
        """Return the path of an object, or of the collection."""
        return object_path(self.api_version, self.plural, namespace if self.namespaced else None, name)


class KubeClient(_Requests[Object, Object | None]):
    """A blocking connection to one API server; threads may share it."""

    def __init__(
        self,
        server: str,
        context: ssl.SSLContext | None = None,
        token: str | None = None,
        *,
        auth: httpx.Auth | None = None,
    ) -> None:
        """Connect to `server`. `auth` authenticates each request, instead of a certificate in `context` or the `token`."""
        super().__init__(server)
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(
            base_url=server, verify=context or True, headers=headers, auth=auth, timeout=_TIMEOUT, trust_env=False
        )
        self._kinds: dict[tuple[str, str], ApiResource] | None = None
        self._kinds_lock = threading.Lock()

    def version(self) -> str:
        """Return the server's version, such as `v1.36.2`."""
        return str(self.get("/version")["gitVersion"])

    def kind(self, api_version: str, kind: str) -> ApiResource | None:
        """Return how a kind is served; None if it is not. None is never cached, because a CRD may be added."""
        with self._kinds_lock:
            if self._kinds is None:
                self._kinds = self._discover()
            if (api_version, kind) not in self._kinds:
                self._kinds |= self._served_in(api_version)
            return self._kinds.get((api_version, kind))

    def api_versions(self) -> list[str]:
        """Return the list for charts' `.Capabilities.APIVersions`: group versions, and their kinds."""
        with self._kinds_lock:
            self._kinds = self._discover()
            kinds = list(self._kinds)
        return sorted({version for version, _ in kinds} | {f"{version}/{kind}" for version, kind in kinds})

    def _discover(self) -> dict[tuple[str, str], ApiResource]:
        found: dict[tuple[str, str], ApiResource] = {}
        for root in ("/api", "/apis"):
            for group in self._send(_Request("GET", root, accept=_DISCOVERY)).get("items", []):
                name = group["metadata"].get("name", "")
                for version in group.get("versions", []):
                    api_version = f"{name}/{version['version']}" if name else version["version"]
                    for served in version.get("resources", []):
                        kind = served["responseKind"]["kind"]
                        found[api_version, kind] = ApiResource(
                            api_version, kind, served["resource"], served["scope"] == "Namespaced"
                        )
        return found

    def _served_in(self, api_version: str) -> dict[tuple[str, str], ApiResource]:
        """Return the kinds of one version of a group, which is a hundredth of the data that `_discover` reads."""
        listed = self.find(_root(api_version)) or {}
        return {
            (api_version, served["kind"]): ApiResource(api_version, served["kind"], served["name"], served["namespaced"])
            for served in listed.get("resources", [])
            if "/" not in served["name"]  # not a subresource
        }

    def _send(self, request: _Request) -> Any:
        try:
            response = self._http.request(**request.arguments())
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        return _answer(response, request)


class KubeApi(_Requests[Awaitable[Object], Awaitable[Object | None]]):
    """An asyncio connection to one API server, with list and watch."""

    def __init__(self, server: str, context: ssl.SSLContext) -> None:
        super().__init__(server)
        self._http = httpx.AsyncClient(base_url=server, verify=context, timeout=_TIMEOUT, trust_env=False)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def watch(self, path: str, **params: str) -> AsyncIterator[tuple[str, Object]]:
        """Yield every existing object and every later change: (SYNC | ADDED | MODIFIED | DELETED, object).

        It starts with one SYNC, whose object is the whole list, and yields another after each new list. It never ends by
        itself: if the server is unreachable, it tries again.
        """
        while True:
            try:
                listed = await self.get(path, **params)
                yield "SYNC", listed
                version = listed["metadata"]["resourceVersion"]
                async for kind, changed in self._changes(path, params, version):
                    yield kind, changed
            except (KubeError, httpx.HTTPError, json.JSONDecodeError):
                await asyncio.sleep(_RETRY_SECONDS)

    async def _changes(self, path: str, params: dict[str, str], version: str) -> AsyncIterator[tuple[str, Object]]:
        query = {**params, "watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
        async with self._http.stream("GET", path, params=query, timeout=_ENDLESS) as response:
            if response.status_code != httpx.codes.OK:
                raise _error(response.status_code, await response.aread())
            async for line in response.aiter_lines():
                change = json.loads(line)
                if change["type"] == "ERROR":  # 410 Gone: too old to continue from
                    return
                if change["type"] != "BOOKMARK":
                    yield change["type"], change["object"]

    async def _send(self, request: _Request) -> Any:
        try:
            response = await self._http.request(**request.arguments())
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        return _answer(response, request)


def object_path(api_version: str, plural: str, namespace: str | None = None, name: str | None = None) -> str:
    """Return the API path of an object, or of the collection without a `name`; without a `namespace`, for all of them."""
    scope = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"{_root(api_version)}{scope}/{plural}" + (f"/{quote(name, safe='')}" if name else "")


def _root(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def timestamp() -> str:
    """Return the current time in Kubernetes' format."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _written(manager: str, dry_run: bool) -> dict[str, str]:
    params = {"fieldManager": manager, "fieldValidation": "Strict"}
    return {**params, "dryRun": "All"} if dry_run else params


def _answer(response: httpx.Response, request: _Request) -> Any:
    if response.status_code in request.none_for:
        return None
    if response.is_error:
        raise _error(response.status_code, response.content)
    return json.loads(response.content)


def _error(status: int, content: bytes) -> ApiError:
    try:
        answer = json.loads(content)
        return ApiError(status, answer.get("reason", ""), answer.get("message") or f"HTTP status {status}")
    except (ValueError, AttributeError):
        return ApiError(status, "", content.decode(errors="replace").strip()[:500] or f"HTTP status {status}")
