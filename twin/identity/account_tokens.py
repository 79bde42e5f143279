"""Get service account tokens, signed by the API server, for programs that run outside of pods."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from pathlib import Path

from spec.files import write_whole
from twin.cluster.kube_api import KubeApi, Object
from twin.cluster.kube_errors import KubeError

log = logging.getLogger("twin.tokens")
_LIFETIME_SECONDS = 86400
"""The lifetime that EKS's webhook requests."""
_RENEW_AFTER_SECONDS = 3600.0
_LOOK_SECONDS = 30.0


async def request(
    api: KubeApi, namespace: str, account: str, *, audience: str, seconds: int, bound_to: Object | None = None
) -> str:
    """Return a new token of a service account. An empty `audience` is the API server itself; `bound_to` refers to a pod.

    Raises KubeError.
    """
    spec: Object = {"expirationSeconds": seconds}
    if audience:
        spec["audiences"] = [audience]
    if bound_to is not None:
        spec["boundObjectRef"] = bound_to
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    answer = await api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", body)
    token: str = answer["status"]["token"]
    return token


class TokenFiles:
    """Tokens of one service account in files, each with its own audience, like a kubelet's for a pod."""

    def __init__(self, api: KubeApi, namespace: str, account: str, files: Mapping[Path, str]) -> None:
        """Take `files` with the audience of each; an empty audience is the API server."""
        self._api = api
        self._namespace = namespace
        self._account = account
        self._files = files

    async def renew(self) -> None:
        """Replace the tokens with new ones. Raises KubeError."""
        for file, audience in self._files.items():
            token = await request(self._api, self._namespace, self._account, audience=audience, seconds=_LIFETIME_SECONDS)
            write_whole(file, token.encode())

    async def keep_fresh(self) -> None:
        """Renew the tokens forever, hours before they expire.

        The files' modification time counts, because a machine may sleep.
        """
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            oldest = min(file.stat().st_mtime for file in self._files)
            if time.time() - oldest > _RENEW_AFTER_SECONDS:
                try:
                    await self.renew()
                except KubeError as error:
                    log.warning("tokens of %s/%s: %s", self._namespace, self._account, error)
