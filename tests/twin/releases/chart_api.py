"""An in-memory API server for the programs of a chart."""

from __future__ import annotations

from twin.cluster.kube_api import Object


class Api:
    """An API server with a service account at `account`; `applied` are the written objects, `deleted` the removed ones.

    `service` is the service of every requested APIService; None: the APIService does not exist.
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
