"""An API server that the programs of a chart talk to, in memory."""

from __future__ import annotations

from twin.cluster.kube_api import Object


class Api:
    """One with a service account at `account`; `applied` is what was put there, `deleted` what was removed.

    `service` is the one of whatever APIService is asked for; None: there is no such APIService.
    """

    def __init__(self, account: str, annotations: dict[str, str] | None = None, service: Object | None = None) -> None:
        self.account = account
        self.annotations = annotations
        self.service = service
        self.applied: dict[str, Object] = {}
        self.deleted: list[str] = []

    async def create(self, path: str, body: Object) -> Object:
        assert path == f"{self.account}/token"
        return {"status": {"token": f"token for {','.join(body['spec'].get('audiences', ['the API server']))}"}}

    async def get(self, path: str) -> Object:
        if "apiservices" in path:
            return {"status": {"conditions": [{"type": "Available", "status": "True"}]}}
        return {"metadata": {"annotations": self.annotations}}

    async def find(self, path: str) -> Object | None:
        return None if self.service is None else {"spec": {"service": self.service}}

    async def apply(self, path: str, body: Object) -> None:
        self.applied[path] = body

    async def delete(self, path: str) -> None:
        self.deleted.append(path)
