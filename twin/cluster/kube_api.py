"""The Kubernetes API as the twin's agent uses it: plain JSON objects over asyncio, with list and watch."""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any

import httpx

Object = dict[str, Any]
_FIELD_MANAGER = "twin-agent"


class ApiError(RuntimeError):
    """The API server refused a request; `status` is HTTP's, `reason` Kubernetes' (NotFound, Conflict …)."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class KubeApi:
    """A connection to one API server. Paths are the API's own, e.g. `/api/v1/namespaces/triton/pods`."""

    def __init__(self, server: str, context: ssl.SSLContext) -> None:
        self._http = httpx.AsyncClient(base_url=server, verify=context, timeout=httpx.Timeout(15.0))
        self._events: dict[str, int] = {}

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def get(self, path: str, **params: str) -> Object:
        """One object, or a list."""
        return await self._request("GET", path, params=params)

    async def find(self, path: str) -> Object | None:
        """One object; None when there is none."""
        try:
            return await self.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def create(self, path: str, body: Object) -> Object:
        """Creates an object in the collection `path`."""
        return await self._request("POST", path, body=body)

    async def patch(self, path: str, body: Object, kind: str = "strategic-merge") -> Object:
        """Patches an object. `kind` is `strategic-merge` (lists by their keys, as the kubelet does it) or `merge`."""
        return await self._request("PATCH", path, body=body, content_type=f"application/{kind}-patch+json")

    async def apply(self, path: str, body: Object) -> Object:
        """Makes the object at `path` what `body` says: creates it, or changes the fields that were applied before.

        A field that its kind does not have is refused.
        """
        params = {"fieldManager": _FIELD_MANAGER, "force": "true", "fieldValidation": "Strict"}
        return await self._request("PATCH", path, params=params, body=body, content_type="application/apply-patch+yaml")

    async def delete(self, path: str, body: Object | None = None) -> None:
        """Deletes an object; that it is gone already, or is another one by now, is fine."""
        try:
            await self._request("DELETE", path, body=body)
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    async def watch(self, path: str, **params: str) -> AsyncIterator[tuple[str, Object]]:
        """Every object there is and every change from then on: (SYNC | ADDED | MODIFIED | DELETED, object).

        Begins with one SYNC, whose object is the whole list, and has another whenever it had to list anew. Never ends by
        itself: an unreachable server is tried again.
        """
        while True:
            try:
                listed = await self.get(path, **params)
                yield "SYNC", listed
                version = listed["metadata"]["resourceVersion"]
                async for kind, changed in self._changes(path, params, version):
                    yield kind, changed
            except (ApiError, httpx.HTTPError, json.JSONDecodeError):
                await asyncio.sleep(0.5)

    async def record_event(self, about: Object, reason: str, message: str, kind: str = "Normal") -> None:
        """Writes an Event about an object, as `kubectl describe` shows it; a repeated one raises its count."""
        metadata = about["metadata"]
        digest = hashlib.sha256(f"{metadata['uid']}{reason}{message}".encode()).hexdigest()[:16]
        self._events[digest] = self._events.get(digest, 0) + 1
        now = timestamp()
        path = f"/api/v1/namespaces/{metadata['namespace']}/events"
        name = f"{metadata['name'][:200]}.{digest}"
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": about.get("kind", "Pod"),
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
            },
            "type": kind,
            "reason": reason,
            "message": message[:1024],
            "source": {"component": "twin-agent"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": self._events[digest],
        }
        try:
            await self.create(path, body)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                change = {"count": self._events[digest], "lastTimestamp": now}
                await self.patch(f"{path}/{name}", change, kind="merge")
            elif error.status not in (403, 404):  # the namespace is on its way out
                raise

    async def _changes(self, path: str, params: dict[str, str], version: str) -> AsyncIterator[tuple[str, Object]]:
        query = {**params, "watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
        timeout = httpx.Timeout(15.0, read=None)
        async with self._http.stream("GET", path, params=query, timeout=timeout) as response:
            if response.status_code != 200:
                raise _error(response.status_code, await response.aread())
            async for line in response.aiter_lines():
                change = json.loads(line)
                if change["type"] == "ERROR":  # 410 Gone: too old to continue from
                    return
                if change["type"] != "BOOKMARK":
                    yield change["type"], change["object"]

    async def _request(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, str] | None = None,
        body: Object | None = None,
        content_type: str = "application/json",
    ) -> Object:
        content = None if body is None else json.dumps(body)
        response = await self._http.request(
            method, path, params=params, content=content, headers={"Content-Type": content_type}
        )
        if response.status_code >= 400:
            raise _error(response.status_code, response.content)
        answer: Object = response.json()
        return answer


def timestamp() -> str:
    """Now, as Kubernetes writes it."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _error(status: int, content: bytes) -> ApiError:
    try:
        answer = json.loads(content)
        return ApiError(status, answer.get("reason", ""), answer.get("message", ""))
    except (ValueError, AttributeError):
        return ApiError(status, "", content.decode(errors="replace")[:500])
