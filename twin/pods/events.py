"""Write Events about pods, as `kubectl describe` shows them."""

from __future__ import annotations

import hashlib

from twin.cluster.kube_api import KubeApi, Object, timestamp
from twin.cluster.kube_errors import ApiError

_LONGEST_NAME, _LONGEST_MESSAGE = 200, 1024
_COMPONENT = "twin-agent"


class Events:
    """Writes Events; a repeated one increases the count of the first."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self._counts: dict[str, int] = {}

    async def record(self, pod: Object, reason: str, message: str, kind: str = "Normal") -> None:
        """Write an Event about a pod; `kind` is Normal or Warning. Raises KubeError."""
        metadata = pod["metadata"]
        digest = hashlib.sha256(f"{metadata['uid']}{reason}{message}".encode()).hexdigest()[:16]
        count = self._counts[digest] = self._counts.get(digest, 0) + 1
        now = timestamp()
        path = f"/api/v1/namespaces/{metadata['namespace']}/events"
        name = f"{metadata['name'][:_LONGEST_NAME]}.{digest}"
        involved = {key: metadata[key] for key in ("name", "namespace", "uid")}
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", **involved},
            "type": kind,
            "reason": reason,
            "message": message[:_LONGEST_MESSAGE],
            "source": {"component": _COMPONENT},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": count,
        }
        try:
            await self._api.create(path, body)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                await self._api.patch(f"{path}/{name}", {"count": count, "lastTimestamp": now}, kind="merge")
            elif error.status not in (403, 404):  # the namespace is being deleted
                raise
